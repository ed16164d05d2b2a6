#!/bin/sh
# Checks that includes point one way:
#
#     vswitch/base <- {vswitch/wire/ib, vswitch/wire/ip, fdb} <- vswitch/wire,  vswitch/base <- vswitch/base/daemon
#     vswitch/wire <- vswitch/fabric <- vswitch/port <- {vswitch/forwarder, vswitch/port/vhost},  vswitch/forwarder <- vswitch
#     {vswitch, vswitch/base/daemon} <- control/config <- {control/subnet, control/vport},  vswitch/wire <- control/protocol
#     vswitch/port/vhost <- control/vport
#     {control/subnet, control/vport, control/protocol} <- control/ves <- control/state <- control <- control/operator
#     {control/operator, vswitch/fabric/softhca} <- control/embed
#     control/operator <- gateway/link <- gateway/election <- {gateway/translation, gateway/uplink} <- gateway
#     gateway/link <- gateway/host
#     vswitch/fabric <- vswitch/fabric/softhca <- {vswitch/fabric/softhca/subnet, vswitch/fabric/softhca/preload}
#     {vswitch/fabric/softhca/subnet, vswitch/base/daemon} <- vswitch/fabric/softhca/fabricd
#
# ("A <- B": B may include A, and all that A may include.) Tests, fuzzers and benchmarks in every room may also include the
# software HCA, its subnet and its preload libraries; those in vswitch/wire/ib and vswitch/wire/ip all of vswitch/wire; those of
# whole agents, in control, what their operator sees (control/operator). The mains named below, vswitch/ovs/ and tests/ may
# include everything. A new folder needs a line in the table below.
#
# check_includes.sh [ROOT]       checks a tree, by default the one this script is in
# check_includes.sh --self-test  tests the check on small trees
set -eu

MAINS="control/eoibctl_main.cc control/eoibd_main.cc gateway/eoib_gateway_main.cc gateway/host/eoib_ipoib_main.cc
  vswitch/fabric/softhca/fabricd/fabricd_main.cc"

# Prints "FILE:LINE: includes HEADER: REASON" for each bad include below $1, and the number of lines read to standard error.
find_bad_includes() {
  (cd "$1" 2>/dev/null && find fdb vswitch control gateway -type f -regextype posix-extended \
    -regex '.*\.(h|hh|hpp|hxx|inc|ipp|c|cc|cpp|cxx)' \
    -exec grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' {} + 2>/dev/null) | awk -v mains="$MAINS" '
    # below: the rooms that this one may include, with all that they may include.
    function add_room(name, below,    count, i, list, other) {
      known[name] = 1
      may[name, name] = 1
      count = split(below, list, " ")
      for (i = 1; i <= count; ++i) for (other in known) if ((list[i], other) in may) may[name, other] = 1
    }
    # The room of a path: its folder. A folder that is not in the table is its own room, which may include nothing.
    function room(path) {
      sub(/\/[^\/]*$/, "", path)
      return path
    }
    BEGIN {
      add_room("vswitch/base", "")
      add_room("vswitch/base/daemon", "vswitch/base")
      add_room("fdb", "vswitch/base")
      add_room("vswitch/wire/ib", "vswitch/base")
      add_room("vswitch/wire/ip", "vswitch/base")
      add_room("vswitch/wire", "fdb vswitch/wire/ib vswitch/wire/ip")
      add_room("vswitch/fabric", "vswitch/wire")
      add_room("vswitch/fabric/softhca", "vswitch/fabric")
      add_room("vswitch/fabric/softhca/subnet", "vswitch/fabric/softhca")
      add_room("vswitch/fabric/softhca/preload", "vswitch/fabric/softhca")
      add_room("vswitch/fabric/softhca/fabricd", "vswitch/fabric/softhca/subnet vswitch/base/daemon")
      add_room("vswitch/port", "vswitch/fabric")
      add_room("vswitch/port/vhost", "vswitch/port")
      add_room("vswitch/forwarder", "vswitch/port")
      add_room("vswitch", "vswitch/forwarder")
      add_room("control/protocol", "vswitch/wire")
      add_room("control/config", "vswitch vswitch/base/daemon")
      add_room("control/subnet", "control/config")
      add_room("control/vport", "control/config vswitch/port/vhost")
      add_room("control/ves", "control/subnet control/vport control/protocol")
      add_room("control/state", "control/ves")
      add_room("control", "control/state")
      add_room("control/operator", "control")
      add_room("control/embed", "control/operator vswitch/fabric/softhca")
      add_room("gateway/link", "control/operator")
      add_room("gateway/election", "gateway/link")
      add_room("gateway/translation", "gateway/election")
      add_room("gateway/uplink", "gateway/election")
      add_room("gateway/host", "gateway/link")
      add_room("gateway", "gateway/translation gateway/uplink")
      count = split(mains, list, /[ \n]+/)
      for (i = 1; i <= count; ++i) is_main[list[i]] = 1
    }
    {
      split($0, part, ":")
      file = part[1]
      header = $0
      sub(/^[^"<]*["<]/, "", header)
      sub(/[">].*$/, "", header)
      ++seen
      from = room(file); to = room(header)
      if (header ~ /^\.\.?\//) { print file ":" part[2] ": includes " header ": includes are relative to the root"; next }
      if (header !~ /^(fdb|vswitch|control|gateway|tests)\//) next  # of a library or the system
      if (file in is_main || from ~ /^vswitch\/ovs/ || (from, to) in may) next
      test = file ~ /_(test|fuzz|bench)\.[a-z]+$/ || file ~ /_(test_fixture|for_test)\.[a-z]+$/
      if (test && to ~ /^vswitch\/fabric\/softhca/) next
      if (test && from == "control" && to == "control/operator") next
      if (test && to ~ /^vswitch\/wire/ && from ~ /^vswitch\/wire\//) next
      print file ":" part[2] ": includes " header ": " from " must not include " to
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
  echo "$seen includes, all allowed"
}

# expect pass|fail FILE HEADER: checks a tree in which FILE includes HEADER.
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
    echo "self-test: $2 including $3: the message does not name them: $output"
    failed=1
  fi
}

self_test() {
  failed=0
  expect pass fdb/a.h vswitch/base/address.h
  expect fail vswitch/base/a.h fdb/fdb.h
  expect pass vswitch/wire/a.h vswitch/base/address.h
  expect pass vswitch/wire/a.h fdb/fdb.h
  expect pass vswitch/wire/a.h vswitch/wire/ib/mad.h
  expect pass vswitch/wire/a.h vswitch/wire/ip/arp.h
  expect fail vswitch/wire/ip/a.h vswitch/wire/ib/mad.h
  expect fail vswitch/wire/ip/a.h vswitch/wire/checksum.h
  expect pass vswitch/wire/ip/a_test.cc vswitch/wire/checksum.h
  expect fail vswitch/wire/ib/a.h fdb/fdb.h
  expect fail fdb/a.h vswitch/wire/ib/mad.h
  expect fail fdb/a_test.cc vswitch/wire/ib/mad.h
  expect pass vswitch/fabric/a.cc vswitch/wire/ib/mad.h
  expect fail vswitch/wire/a.cc vswitch/fabric/hca.h
  expect pass vswitch/port/a.cc vswitch/fabric/buffer_pool.h
  expect fail vswitch/fabric/a.cc vswitch/port/port.h
  expect pass vswitch/forwarder/forwarder.h vswitch/port/port.h
  expect fail vswitch/port/a.h vswitch/forwarder/forwarder.h
  expect fail vswitch/fabric/a.h vswitch/forwarder/forwarder.h
  expect pass control/a.cc vswitch/forwarder/forwarder.h
  expect fail vswitch/forwarder/forwarder.cc control/agent.h
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
  expect pass vswitch/base/daemon/a.h vswitch/base/clock.h
  expect fail vswitch/base/daemon/a.h vswitch/fabric/hca.h
  expect fail vswitch/base/daemon/a.h control/agent.h
  expect pass control/agent.h vswitch/base/daemon/event_loop.h
  expect pass vswitch/fabric/softhca/fabricd/a.h vswitch/base/daemon/command_registry.h
  expect pass vswitch/fabric/softhca/fabricd/a.h vswitch/fabric/softhca/subnet/subnet.h
  expect fail vswitch/fabric/softhca/fabricd/a.h control/agent.h
  expect fail vswitch/fabric/softhca/subnet/subnet.h vswitch/base/daemon/command_registry.h
  expect fail vswitch/fabric/softhca/subnet/subnet.h vswitch/fabric/softhca/fabricd/fabric_commands.h
  expect fail vswitch/fabric/a.h vswitch/base/daemon/command_registry.h
  expect fail vswitch/fabric/a.cc vswitch/fabric/softhca/soft_hca.h
  expect fail control/agent.cc vswitch/fabric/softhca/soft_hca.h
  expect fail control/test_support.cc vswitch/fabric/softhca/soft_hca.h
  expect pass control/agent_test.cc vswitch/fabric/softhca/soft_hca.h
  expect pass vswitch/forwarder/forwarder_fuzz.cc vswitch/fabric/softhca/soft_hca.h
  expect pass vswitch/forwarder/forwarder_bench.cc vswitch/fabric/softhca/soft_hca.h
  expect fail vswitch/forwarder/forwarder_test.cc control/agent.h
  expect fail control/a.cc tests/lab/lab.h
  expect pass gateway/translation/a.cc gateway/link/link.h
  expect pass gateway/host/a.cc gateway/link/link.h
  expect pass gateway/gateways_config.cc gateway/translation/gateway_config.h
  expect pass gateway/link/a_test.cc vswitch/fabric/softhca/soft_hca.h
  expect fail gateway/link/a.cc gateway/translation/translator.h
  expect fail gateway/link/a.cc gateway/gateways_config.h
  expect fail gateway/host/a.cc gateway/translation/translator.h
  expect fail gateway/gateways_config.cc gateway/host/endpoint.h
  expect fail gateway/translation/a_test.cc gateway/gateways_config.h
  expect fail vswitch/fabric/softhca/a.h vswitch/fabric/softhca/preload/umad_port.h
  expect fail vswitch/fabric/softhca/subnet/a.cc vswitch/fabric/softhca/preload/umad_port.h
  expect fail vswitch/forwarder/a.cc vswitch/worker.h
  expect fail control/subnet/a.cc control/ves/ves.h
  expect fail control/subnet/a.cc control/operator/capture_arguments.h
  expect fail control/vport/a.cc control/ves/ves.h
  expect fail control/ves/a.cc control/state/saved_identity.h
  expect fail control/agent.cc control/operator/agent_commands.h
  expect pass control/agent_test.cc control/operator/agent_commands.h
  expect fail control/ves/a_test.cc control/operator/ves_commands.h
  expect pass control/operator/a.cc control/agent.h
  expect fail gateway/election/a.cc gateway/translation/groups.h
  expect pass gateway/uplink/a.cc gateway/election/uplink_election.h
  expect fail gateway/uplink/a.cc gateway/translation/translator.h
  expect fail vswitch/wire/a.hpp vswitch/fabric/hca.h
  expect fail vswitch/wire/a.cpp vswitch/fabric/hca.h
  expect fail vswitch/wire/a.inc vswitch/fabric/hca.h
  expect fail vswitch/new_room/a.cc vswitch/base/address.h
  expect fail control/other_main.cc gateway/uplink.h
  if check /nonexistent >/dev/null; then
    echo "self-test: a tree without includes passes"
    failed=1
  fi
  [ "$failed" -eq 0 ] && echo "self-test: all checks passed"
}

case "${1:-}" in
  --self-test) self_test ;;
  *) check "${1:-$(cd "$(dirname "$0")/../.." && pwd)}" ;;
esac
