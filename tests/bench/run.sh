#!/bin/bash
# Builds and runs a benchmark, prints its table, and writes build/bench/NAME.json; scale and net also a plot, build/bench/NAME.svg.
#
#   tests/bench/run.sh NAME [--full]      (net, ...; --full: fdb's whole matrix, in build/bench/fdb_full.json, and its plot)
#
# Exit status 1 if a ratio that the benchmark requires is not reached.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/packages.sh

full=${2:-}
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -e "tests/bench/$1_bench.cc" ] || { [ -n "$full" ] && [ "$*" != "fdb --full" ]; }; then
  echo "usage: tests/bench/run.sh NAME [--full], where NAME is one of:" tests/bench/*_bench.cc | sed 's#tests/bench/##g; s#_bench\.cc##g' >&2
  exit 2
fi
name=$1

case "$name" in
  fdb) install_packages build bench ${full:+profile} ;;
  scale) install_packages build profile ;;
  net) install_packages build run test profile all net ;;
  vm) install_packages build run test generator ;;
  *) install_packages build run test ;;
esac
build_tree release build "${name}_bench" >/dev/null
status=0
if [ -n "$full" ]; then
  "build/bench/${name}_bench" "build/bench/${name}_full.json" --full || status=$?
  tests/bench/fdb_plot.py "build/bench/${name}_full.json" "build/bench/$name.svg"
  exit "$status"
fi
if [ "$name" = scale ]; then
  build/bench/scale_bench build/bench/scale.json || status=$?
  tests/bench/scale_plot.py build/bench/scale.json build/bench/scale.svg
  exit "$status"
fi
if [ "$name" = net ]; then
  EOIB_BIN=$PWD/build/bin build/bench/net_bench build/bench/net.json || status=$?
  tests/bench/net_plot.py build/bench/net.json build/bench/net.svg
  exit "$status"
fi
EOIB_BIN=$PWD/build/bin "build/bench/${name}_bench" "build/bench/$name.json"
