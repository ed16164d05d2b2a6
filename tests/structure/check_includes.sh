#!/bin/sh
# Checks that includes point one way:
#
#     fdb <- vswitch/wire <- vswitch/fabric <- {vswitch/port, the rest of vswitch} <- control <- gateway <- mains
#
# ("A <- B": B may include A.) vswitch/port includes nothing of the rest of vswitch. The software HCA (vswitch/fabric/softhca) is
# included by itself, by tests, fuzzers, benchmarks and mains only; within it, so is its subnet (vswitch/fabric/softhca/subnet),
# which HCAs reach through subnet_link.h, and so are its preload libraries (vswitch/fabric/softhca/preload). *_main.cc, vswitch/ovs/ and tests/ may include everything, and so may the commands of
# fabricd (vswitch/fabric/softhca/subnet/*_commands.*), which are a part of its main.
#
# check_includes.sh [ROOT]       checks a tree, by default the one this script is in
# check_includes.sh --self-test  shows on small trees that the check finds what it should, and no more
set -eu

# Prints "FILE:LINE: includes HEADER: why not" for each bad include below $1; how many lines it read goes to standard error.
find_bad_includes() {
  (cd "$1" 2>/dev/null && find fdb vswitch control gateway -type f \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) \
    -exec grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' {} + 2>/dev/null) | awk '
    # The room of a path, and its place in the order.
    function room(path) {
      if (path ~ /^fdb\//) return "fdb"
      if (path ~ /^vswitch\/wire\//) return "vswitch/wire"
      if (path ~ /^vswitch\/fabric\/softhca\/subnet\//) return "vswitch/fabric/softhca/subnet"
      if (path ~ /^vswitch\/fabric\/softhca\/preload\//) return "vswitch/fabric/softhca/preload"
      if (path ~ /^vswitch\/fabric\/softhca\//) return "vswitch/fabric/softhca"
      if (path ~ /^vswitch\/fabric\//) return "vswitch/fabric"
      if (path ~ /^vswitch\/port\//) return "vswitch/port"
      if (path ~ /^vswitch\/ovs\//) return "vswitch/ovs"
      if (path ~ /^vswitch\//) return "vswitch"
      if (path ~ /^control\//) return "control"
      if (path ~ /^gateway\//) return "gateway"
      if (path ~ /^tests\//) return "tests"
      return ""
    }
    BEGIN {
      level["fdb"] = 0; level["vswitch/wire"] = 1; level["vswitch/fabric"] = 2; level["vswitch/fabric/softhca"] = 2.5
      level["vswitch/fabric/softhca/subnet"] = 2.6; level["vswitch/fabric/softhca/preload"] = 2.6
      level["vswitch/port"] = 3; level["vswitch"] = 4; level["control"] = 5; level["gateway"] = 6
      level["vswitch/ovs"] = 7; level["tests"] = 7
    }
    {
      split($0, part, ":")
      file = part[1]
      header = $0
      sub(/^[^"<]*["<]/, "", header)
      sub(/[">].*$/, "", header)
      ++seen
      from = room(file); to = room(header)
      test = file ~ /_(test|fuzz|bench)\.cc$/ || file ~ /_(test_fixture|for_test)\.h$/
      why = ""
      if (header ~ /^\.\.?\//) { print file ":" part[2] ": includes " header ": includes are relative to the root"; next }
      if (to == "" || from == "vswitch/ovs" || file ~ /_main\.cc$/) next
      if (from == "vswitch/fabric/softhca/subnet" && file ~ /_commands(_test)?\.(h|cc)$/) next
      if (to == "vswitch/fabric/softhca/subnet") {
        if (from != to && !test) why = "only tests, mains and the subnet itself may include the software subnet"
      } else if (to == "vswitch/fabric/softhca/preload") {
        if (from != to && !test) why = "only tests and the preload libraries themselves may include the preload libraries"
      } else if (to == "vswitch/fabric/softhca") {
        if (from !~ /^vswitch\/fabric\/softhca/ && !test) why = "only tests, mains and softhca itself may include the software HCA"
      } else if (level[to] > level[from]) {
        why = from " must not include " to
      }
      if (why != "") print file ":" part[2] ": includes " header ": " why
    }
    END { print seen + 0 > "/dev/stderr" }'
}

check() {
  count=$(mktemp)
  bad=$(find_bad_includes "$1" 2>"$count")
  seen=$(cat "$count")
  rm -f "$count"
  if [ "$seen" -eq 0 ]; then
    echo "$1: no includes found: wrong directory?"
    return 1
  fi
  if [ -n "$bad" ]; then
    echo "$bad"
    return 1
  fi
  echo "$seen includes, all of them one way"
}

# expect pass|fail FILE HEADER: a tree with that one include does or does not pass.
expect() {
  tree=$(mktemp -d)
  mkdir -p "$tree/fdb" "$tree/vswitch" "$tree/control" "$tree/gateway" "$tree/$(dirname "$2")"
  printf '#include <vector>\n\n#include "%s"\n' "$3" >"$tree/$2"
  if output=$(check "$tree"); then result=pass; else result=fail; fi
  rm -rf "$tree"
  if [ "$result" != "$1" ]; then
    echo "self-test: $2 including $3: expected $1, got $result: $output"
    failed=1
  elif [ "$result" = fail ] && [ "${output#"$2:3: includes $3: "}" = "$output" ]; then
    echo "self-test: $2 including $3: the message does not say so: $output"
    failed=1
  fi
}

self_test() {
  failed=0
  expect pass vswitch/wire/a.h fdb/address.h
  expect fail fdb/a.h vswitch/wire/mad.h
  expect fail fdb/a_test.cc vswitch/wire/mad.h
  expect pass vswitch/fabric/a.cc vswitch/wire/mad.h
  expect fail vswitch/wire/a.cc vswitch/fabric/hca.h
  expect pass vswitch/port/a.cc vswitch/fabric/buffer_pool.h
  expect fail vswitch/fabric/a.cc vswitch/port/port.h
  expect pass vswitch/forwarder.h vswitch/port/port.h
  expect fail vswitch/port/a.h vswitch/forwarder.h
  expect fail vswitch/fabric/a.h vswitch/forwarder.h
  expect pass control/a.cc vswitch/forwarder.h
  expect fail vswitch/forwarder.cc control/agent.h
  expect pass gateway/a.cc control/agent.h
  expect fail control/a.cc gateway/uplink.h
  expect pass control/eoibd_main.cc gateway/uplink.h
  expect pass control/eoibd_main.cc vswitch/fabric/softhca/soft_hca.h
  expect pass vswitch/ovs/netdev.c control/agent.h
  expect pass vswitch/ovs/netdev.cc vswitch/fabric/softhca/soft_hca.h
  expect pass vswitch/fabric/softhca/a.cc vswitch/fabric/softhca/ring.h
  expect pass vswitch/fabric/softhca/a.cc vswitch/fabric/hca.h
  expect fail vswitch/fabric/softhca/a.cc vswitch/port/port.h
  expect pass vswitch/fabric/softhca/subnet/subnet.h vswitch/fabric/softhca/subnet_link.h
  expect fail vswitch/fabric/softhca/soft_port.h vswitch/fabric/softhca/subnet/subnet.h
  expect pass vswitch/fabric/softhca/soft_port_test.cc vswitch/fabric/softhca/subnet/subnet.h
  expect pass vswitch/fabric/softhca/node_for_test.h vswitch/fabric/softhca/subnet/subnet.h
  expect fail control/agent.cc vswitch/fabric/softhca/subnet/subnet.h
  expect pass vswitch/fabric/softhca/preload/umad_port.h vswitch/fabric/softhca/subnet_link.h
  expect pass vswitch/fabric/softhca/preload/umad_port.cc vswitch/fabric/softhca/preload/umad_port.h
  expect fail vswitch/fabric/softhca/preload/umad_port.h vswitch/fabric/softhca/subnet/subnet.h
  expect pass vswitch/fabric/softhca/preload/umad_port_test.cc vswitch/fabric/softhca/subnet/subnet.h
  expect fail vswitch/fabric/softhca/soft_port.h vswitch/fabric/softhca/preload/umad_port.h
  expect pass vswitch/fabric/softhca/subnet/a_commands.h control/command_registry.h
  expect pass vswitch/fabric/softhca/subnet/a_commands_test.cc control/command_registry.h
  expect fail vswitch/fabric/softhca/subnet/subnet.h control/command_registry.h
  expect fail vswitch/fabric/a_commands.h control/command_registry.h
  expect fail vswitch/fabric/a.cc vswitch/fabric/softhca/soft_hca.h
  expect fail control/agent.cc vswitch/fabric/softhca/soft_hca.h
  expect fail control/test_support.cc vswitch/fabric/softhca/soft_hca.h
  expect pass control/agent_test.cc vswitch/fabric/softhca/soft_hca.h
  expect pass vswitch/forwarder_fuzz.cc vswitch/fabric/softhca/soft_hca.h
  expect pass vswitch/forwarder_bench.cc vswitch/fabric/softhca/soft_hca.h
  expect fail vswitch/forwarder_test.cc control/agent.h
  expect fail control/a.cc tests/lab/lab.h
  if check /nonexistent >/dev/null; then
    echo "self-test: a tree without includes passes"
    failed=1
  fi
  [ "$failed" -eq 0 ] && echo "the check finds what it should"
}

case "${1:-}" in
  --self-test) self_test ;;
  *) check "${1:-$(cd "$(dirname "$0")/../.." && pwd)}" ;;
esac
