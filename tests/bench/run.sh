#!/bin/bash
# Builds and runs a benchmark, prints its table, and writes build/bench/NAME.json.
#
#   tests/bench/run.sh NAME      (tcp, ...)
#
# Exit status 1 if a ratio that the benchmark requires is not reached.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/packages.sh

if [ $# -ne 1 ] || [ ! -e "tests/bench/$1_bench.cc" ]; then
  echo "usage: tests/bench/run.sh NAME, where NAME is one of:" tests/bench/*_bench.cc | sed 's#tests/bench/##g; s#_bench\.cc##g' >&2
  exit 2
fi
name=$1

install_packages build run test
build_tree build "${name}_bench" -- -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=g++ >/dev/null
EOIB_BIN=$PWD/build/bin "build/bench/${name}_bench" "build/bench/$name.json"
