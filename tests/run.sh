#!/bin/bash
# Builds and runs the tests.
#
#   tests/run.sh [LABEL...]         the tests with these labels (unit, netns, softhca, ...), or all but vm-all, ovs-all and
#                                   packages, in build/
#   tests/run.sh --all [LABEL...]   also: builds the benchmarks, runs all scenarios in the virtual machine (vm-all) and Open
#                                   vSwitch's suite (ovs-all), tests packages, sanitizers (build-asan, build-tsan), fuzzing
#                                   for some minutes (build-asan), and measures coverage: of the codecs by the fuzz corpora,
#                                   of the code for real HCAs by the tests (build-coverage)
#
# Installs missing Debian packages, as root. Ends with a summary. The exit status is 0 only if all tests ran and passed; a
# skipped test counts as failed. A test that failed once and then passed twice alone is reported as unsteady, also in
# build/unsteady.txt; three unsteady tests are accepted (tests/run/ctest.sh has the rule).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. deploy/packages.sh
. tests/run/ctest.sh
. tests/run/coverage.sh
. tests/run/fuzz.sh

usage() {
  sed -n '2,14s/^# \{0,1\}//p' "$0"
  exit "$1"
}

# Temporary directories are deleted at the end of this script, also when it is interrupted.
SCRATCH=()
trap 'rm -rf "${SCRATCH[@]}"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# scratch VARIABLE: makes a temporary directory and stores its path.
scratch() {
  local -n made=$1
  made=$(mktemp -d) && SCRATCH+=("$made")
}

# build PRESET DIRECTORY "TARGET..." CMAKE_ARGUMENTS...
build() {
  local preset=$1 directory=$2 targets=$3
  shift 3
  title "build $directory: $targets"
  # shellcheck disable=SC2086
  timed "build of $directory: $targets" build_tree "$preset" "$directory" $targets -- -DEOIB_WERROR=ON "$@" || { fail "build $directory"; return 1; }
}

# An empty compiler cache makes a build a tenth slower, without any use on a machine that builds once.
use_no_empty_cache() {
  if ccache --print-stats 2>/dev/null | grep -qE '^cache_size_kibibyte[[:space:]]+0$'; then export CCACHE_DISABLE=1; fi
}

# Builds at the lowest priority, in the time that tests leave while they wait. A later `build` of the same tree reports the errors.
AHEAD=
build_ahead() {
  local preset=$1 directory=$2 targets=$3
  shift 3
  # shellcheck disable=SC2086
  (renice -n 19 "$BASHPID" >/dev/null; build_tree "$preset" "$directory" $targets -- "$@") >/dev/null 2>&1 &
  AHEAD=$!
}

# One tree for the address sanitizer and for fuzzing.
ASAN=(fuzz build-asan "unit_tests programs eoib-vswitchd" -DEOIB_OPENVSWITCH=ON -DEOIB_OPENVSWITCH_BUILT="$PWD/build/openvswitch")
TSAN=(tsan build-tsan unit_tests)

run_sanitizers() {
  # Only the agents, gateways, fabricd and the port type of Open vSwitch are instrumented. The netns and ovs test programs, and
  # third-party programs (tshark, ibv_devinfo) with the preload libraries, are those of the plain build.
  export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  if build "${ASAN[@]}"; then
    run_ctest build-asan build-asan "" -L "$(label_expression unit softhca-inprocess)"
    build_ahead "${TSAN[@]}"
    run_ctest "build, with the programs of build-asan" build "EOIB_SANITIZED_BIN=$PWD/build-asan/bin" \
      -L "$(label_expression netns ovs)"
    timed "rest of the build ahead" wait "$AHEAD"
    timed fuzzing run_fuzzers
  fi
  build "${TSAN[@]}" &&
    run_ctest build-tsan build-tsan "" -L "$(label_expression unit softhca-inprocess)"
}

run_coverage() {
  build coverage build-coverage "fuzzers ${VERBS_TESTS[*]}" || return
  timed "coverage" cover_all
}

ALL=
LABELS=()
for argument in "$@"; do
  case $argument in
    --all) ALL=1 ;;
    -h | --help) usage 0 ;;
    -*) usage 2 >&2 ;;
    *) LABELS+=("$argument") ;;
  esac
done

timed packages install_packages build run test ${ALL:+package bench all} || exit 1
use_no_empty_cache
if build release build all; then
  title "test"
  if [ "${#LABELS[@]}" -gt 0 ]; then
    run_ctest build build "" -L "$(label_expression "${LABELS[@]}")"
  elif [ -n "$ALL" ]; then
    build_ahead "${ASAN[@]}"
    run_ctest build build "" -E '^vm_scenarios_'  # which are a part of vm-all
    timed "rest of the build ahead" wait "$AHEAD"
  else
    run_ctest build build "" -LE '^(vm-all|ovs-all|packages)$'
  fi
fi
if [ -n "$ALL" ]; then
  build release build benchmarks
  run_sanitizers
  run_coverage
fi
repeat_failed_tests

title "summary"
printf '%s\n\n' "${SUMMARIES[@]}"
report_times
echo
printf '%s\n' "${UNSTEADY[@]}"
if [ "${#FAILURES[@]}" -gt 0 ]; then
  printf 'FAILED: %s\n' "${FAILURES[@]}"
  exit 1
fi
echo "all passed"
