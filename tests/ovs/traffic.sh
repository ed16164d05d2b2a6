#!/bin/bash
# Runs traffic tests of Open vSwitch's suite for the userspace datapath (system-traffic.at) with eoib-vswitchd, and with pairs of eoib
# ports in place of the pairs of veths (eoib_pairs.sh). Tests that fail run again, alone, up to twice. Those that always fail run with
# Open vSwitch's program and veths: a test that passes there is a failure of ours. README.md tells which tests are left out.
#
#   tests/ovs/traffic.sh BUILD_DIRECTORY [NUMBER...]
#
# As root, in namespaces of its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
suite=$build/openvswitch/src/tests/system-userspace-testsuite
shift
# Ping over IPv4 and IPv6, HTTP, header changes, VXLAN over eoib ports, clone, MPLS, connection tracking, fragments, NAT.
TESTS=(1 2 5 8 9 11 13 30 33 44 51 53 99 118)
if [ $# -gt 0 ]; then TESTS=("$@"); fi

# Inside namespaces.
if [ "${EOIB_PAIRS:-}" ]; then
  mkdir -p /run/netns
  mount -t tmpfs tmpfs /run/netns
  ip link set lo up
  cd "$EOIB_PAIRS"
  if [ -e partitions.toml ]; then
    "$EOIB_BIN/eoib-fabricd" --rundir="$EOIB_PAIRS" --statedir="$EOIB_PAIRS" --config="$EOIB_PAIRS/partitions.toml" >fabricd.log 2>&1 &
    until [ -S fabricd.sock ]; do sleep 0.05; done
  fi
  exec sh "$suite" -C "$EOIB_PAIRS" AUTOTEST_PATH="$EOIB_PAIRS/bin:/usr/sbin:/usr/bin:/sbin:/bin" "${TESTS[@]}"
fi

# The suite names its programs relative to its place: ../../src/tests.
work=$(mktemp -d "$build/openvswitch/traffic.XXXXXX")
trap 'rm -rf "$work"' EXIT

# shard WHOSE DIRECTORY NUMBER...: runs these tests one after another, in namespaces of their own.
shard() {
  local whose=$1 directory=$2 number
  shift 2
  mkdir -p "$directory/bin"
  cp "$build"/openvswitch/build/tests/{atconfig,atlocal} "$directory"
  if [ "$whose" = ours ]; then
    ln -sf "$build/bin/eoib-vswitchd" "$directory/bin/ovs-vswitchd"
    for program in ip ethtool ovs-vsctl; do ln -sf "$here/eoib_pairs.sh" "$directory/bin/$program"; done
    for number in {1..32}; do printf '[[partition]]\npkey = 0x80%02x\nfull = ["ALL"]\n' "$number"; done >"$directory/partitions.toml"
  else
    ln -sf "$build/openvswitch/build/vswitchd/ovs-vswitchd" "$directory/bin/ovs-vswitchd"
  fi
  EOIB_PAIRS=$directory EOIB_BIN=$build/bin \
    unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$build" "$@" >"$directory/output" 2>&1 || true
  grep -q 'tests\? \(was\|were\) \(successful\|run\)\|test results' "$directory/output" || cat "$directory/output" >&2
}

# with RESULT DIRECTORY...: the numbers of the tests that ended so there.
with() {
  local result=$1
  shift
  cat "${@/%//output}" | sed -nE "s/^ *([0-9]+): .* $result( .*)?$/\\1/p" | sort -u
}
# without "NUMBER..." "NUMBER...": those of the first list that are not in the second.
without() { comm -23 <(tr ' ' '\n' <<<"$1" | sort -u) <(tr ' ' '\n' <<<"$2" | sort -u); }

# Most tests wait most of the time.
SHARDS=3
for ((i = 0; i < SHARDS; i++)); do
  mine=()
  for ((j = i; j < ${#TESTS[@]}; j += SHARDS)); do mine+=("${TESTS[j]}"); done
  if [ "${#mine[@]}" -gt 0 ]; then shard ours "$work/$i" "${mine[@]}" & fi
done
wait
passed=$(with ok "$work"/?)
skipped=$(with skipped "$work"/?)
pairs=$(awk '{ sum += $1 } END { print sum + 0 }' "$work"/?/count)
failed=$(without "$(without "${TESTS[*]}" "$passed")" "$skipped")
for try in 1 2; do
  if [ -z "$failed" ]; then break; fi
  echo "try $try of 2 again: $(paste -sd' ' <<<"$failed")"
  rm -rf "$work/again"
  # shellcheck disable=SC2086
  shard ours "$work/again" $failed
  failed=$(without "$failed" "$(with ok "$work/again")")
done
both=
if [ -n "$failed" ]; then
  # shellcheck disable=SC2086
  shard theirs "$work/theirs" $failed
  both=$(without "$failed" "$(with ok "$work/theirs")")
fi
echo "${#TESTS[@]} tests with $pairs pairs of eoib ports; $(wc -w <<<"$passed") passed at once; skipped: $(paste -sd' ' <<<"$skipped");" \
  "failed always: $(paste -sd' ' <<<"$failed"); with Open vSwitch's program and veths, too: $(paste -sd' ' <<<"$both")"
status=0
for number in $(without "$failed" "$both"); do
  echo "FAILED with eoib-vswitchd only: $(sh "$suite" --list | grep -E "^ *$number:")"
  cat "$work/again/system-userspace-testsuite.dir/"*"$number/system-userspace-testsuite.log"
  status=1
done
if [ -n "$skipped" ]; then
  echo "a skipped test shows nothing" >&2
  status=1
fi
exit $status
