#!/bin/bash
# Tests on small ctest trees how ctest.sh handles failed tests.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/build"
cd "$work" || exit 1
. "$here/ctest.sh"
scratch() { local -n made=$1; made=$(mktemp -d -p "$work"); }

# test_case NAME LABEL FAILURES SCRIPT: adds a test that runs SCRIPT and fails the first FAILURES times.
test_case() {
  cat >"build/$1.sh" <<END
echo x >>$work/runs.$1
[ "\$(wc -l <$work/runs.$1)" -gt $3 ] && exit 0
$4
END
  printf 'add_test(%s bash %s)\nset_tests_properties(%s PROPERTIES LABELS %s TIMEOUT 1)\n' \
    "$1" "$work/build/$1.sh" "$1" "$2" >>build/CTestTestfile.cmake
}

readonly GTEST_FAILURE='echo "[  FAILED  ] Some.Case (12 ms)"; exit 1'
test_case passes unit 0 'exit 1'
test_case fails_once netns 1 "$GTEST_FAILURE"
test_case hangs_once vm 1 'sleep 5'
test_case fails_twice netns 2 "$GTEST_FAILURE"
test_case unit_fails_once unit 1 "$GTEST_FAILURE"
test_case crashes_once netns 1 'kill -SEGV $$'
test_case sees_a_crash netns 1 'echo "crashed: eoibd"; exit 1'
test_case opensm_crashes_once vm 1 'echo "crashed: opensm, by signal 11"; exit 1'
test_case crashes_in_a_shell vm 1 'echo "line 16: 71 Segmentation fault"; exit 139'
test_case sees_a_check netns 1 'echo "a.cc:1: check failed: x"; exit 1'
test_case sees_a_report netns 1 'echo "==7==ERROR: AddressSanitizer: heap-use-after-free"; exit 1'
test_case loses_frames netns 1 'echo "conservation of frames on h1"; exit 1'
run_ctest stage build "" >/dev/null 2>&1
repeat_failed_tests >/dev/null 2>&1

status=0
# expect WHAT EXPECTED FOUND
expect() {
  [ "$2" = "$3" ] && return
  printf '%s: expected\n%s\nbut found\n%s\n' "$1" "$2" "$3"
  status=1
}
expect unsteady "unsteady: fails_once (Some.Case), see build/failed/fails_once.log
unsteady: hangs_once (ended by ctest's time limit), see build/failed/hangs_once.log
unsteady: opensm_crashes_once (crashed: opensm, by signal 11), see build/failed/opensm_crashes_once.log" "$(sort build/unsteady.txt)"
expect failures "crashes_in_a_shell in stage (Failed: *
crashes_once in stage (SEGFAULT: *
fails_twice, again when run alone (Some.Case)
loses_frames in stage (Failed: *
sees_a_check in stage (Failed: *
sees_a_crash in stage (Failed: *
sees_a_report in stage (Failed: *
unit_fails_once in stage (Failed: Some.Case)" "$(printf '%s\n' "${FAILURES[@]}" | sed 's/\(SEGFAULT\|Failed\): [^S].*/\1: */' | sort)"
expect "tries of a test that fails once" 3 "$(wc -l <runs.fails_once)"
expect "tries of a crash" 1 "$(wc -l <runs.crashes_once)"
expect "slow tests" 1 "$(report_times | grep -c 'hangs_once (stage)')"

# The fourth unsteady test fails the run.
FAILURES=() UNSTEADY=(1 2) TO_REPEAT=("build passes build/failed/fails_once.log ")
repeat_failed_tests >/dev/null 2>&1
expect "three unsteady tests" 0 "${#FAILURES[@]}"
UNSTEADY=(1 2 3)
repeat_failed_tests >/dev/null 2>&1
expect "four unsteady tests" "4 unsteady tests; at most 3 are accepted" "${FAILURES[*]}"
[ "$status" = 0 ] && echo "ctest.sh: all checks passed"
exit "$status"
