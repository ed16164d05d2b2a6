#!/bin/bash
# Draws where both ends of a TCP stream spend their time: tests/bench/sender.svg and tests/bench/receiver.svg.
#
# Two agents in network namespaces, iperf3 between them, perf over all of it; prints each process's share and that of the
# functions in the agents. The agents are built with frame pointers (build/profile), so that perf can follow their calls.
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/packages.sh

install_packages build run test profile
build_tree release build/profile stream_profile -- -DCMAKE_CXX_FLAGS=-fno-omit-frame-pointer >/dev/null
mkdir -p build/bench
EOIB_BIN=$PWD/build/profile/bin build/profile/bench/stream_profile build/bench/stream
perf script -i build/bench/stream.data -F comm,pid,ip,sym,dso 2>/dev/null |
  python3 tests/bench/flamegraph.py build/bench/stream tests/bench sender receiver
rm build/bench/stream.data
