#!/bin/bash
# Runs the part of Open vSwitch's own test suite that is about the userspace datapath (dpif-netdev, PMD threads, dpctl)
# with eoib-vswitchd in place of ovs-vswitchd. Tests that fail run again, one after another, up to three times: many of them give PMD
# threads a second for their work, which is too little while other programs use the processors. Those that always fail run with Open
# vSwitch's program, built from the same source: only a test that passes there is a failure of ours.
#
#   tests/ovs/suite.sh BUILD_DIRECTORY
#
# In namespaces of its own for network and processes, as root.
set -euo pipefail
build=$(cd "$1" && pwd)/openvswitch/build
ours=$(cd "$1" && pwd)/bin/eoib-vswitchd
suite=$build/../src/tests/testsuite
if [ "${2:-}" != --inside ]; then exec unshare --net --pid --fork --kill-child --mount-proc "$0" "$1" --inside; fi
ip link set lo up
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/ours" "$work/theirs"
ln -s "$ours" "$work/ours/ovs-vswitchd"
ln -s "$build/vswitchd/ovs-vswitchd" "$work/theirs/ovs-vswitchd"

# groups: the numbers of the tests.
groups() { sh "$suite" --list | sed -nE 's/^ *([0-9]+): (dpif-netdev|pmd|dpctl)\.at:.*/\1/p'; }

# run WHOSE JOBS NUMBER...: prints the numbers of the tests that failed. The tools are the distribution's.
run() {
  local whose=$1 directory=$work/$1 jobs=$2
  shift 2
  cp "$build"/tests/atconfig "$build"/tests/atlocal "$directory"
  (cd "$build/tests" && sh "$suite" -C "$directory" AUTOTEST_PATH="$work/$whose:/usr/sbin:/usr/bin" "$@" -j"$jobs") >"$directory/output" 2>&1 || true
  grep -q 'tests\? \(was\|were\) \(successful\|run\)\|test results' "$directory/output" || {
    cat "$directory/output" >&2
    return 1
  }
  sed -nE 's/^ *([0-9]+): .* FAILED .*/\1/p' "$directory/output"
}

cd "$build"
mapfile -t numbers < <(groups)
[ "${#numbers[@]}" -ge 30 ] || { echo "the suite has ${#numbers[@]} tests of the userspace datapath; at least 30 were expected" >&2; exit 1; }
failed=$(run ours 2 "${numbers[@]}")
skipped=$(grep -cE '^ *[0-9]+: .* skipped' "$work/ours/output" || true)
passed=$((${#numbers[@]} - $(wc -w <<<"$failed")))
for try in 1 2 3; do
  if [ -z "$failed" ]; then break; fi
  echo "try $try of 3 again: $(paste -sd' ' <<<"$failed")"
  # shellcheck disable=SC2086
  failed=$(run ours 1 $failed)
done
both=$failed
for try in 1 2 3 4; do  # as many as ours had
  # shellcheck disable=SC2086
  if [ -n "$both" ]; then both=$(run theirs 1 $both); fi
done
echo "${#numbers[@]} tests; $passed passed at once, $skipped of them skipped; failed always: $(paste -sd' ' <<<"$failed"); with Open vSwitch's program, too: $(paste -sd' ' <<<"$both")"
status=0
for number in $(comm -23 <(sort <<<"$failed") <(sort <<<"$both")); do
  echo "FAILED with eoib-vswitchd only: $(sh "$suite" --list | grep -E "^ *$number:")"
  cat "$work/ours/testsuite.dir/$number/testsuite.log"
  status=1
done
[ "$skipped" = 0 ] || { echo "$skipped tests were skipped; a skipped test shows nothing" >&2; status=1; }
exit $status
