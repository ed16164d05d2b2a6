#!/bin/bash
# Builds and runs the tests.
#
#   tests/run.sh [LABEL...]         the tests of these labels (unit, netns, softhca, ...), or all but vm-all, in build/
#   tests/run.sh --all [LABEL...]   then also: benchmarks built, every scenario in the virtual machine (vm-all), sanitizers
#                                   (build-asan, build-tsan), ten minutes of fuzzing (build-asan), what of the codecs the fuzz
#                                   corpora reach and what of the real HCA's paths the tests (build-coverage)
#
# Installs missing Debian packages, as root. Ends with ctest's summary; the exit status is 0 only if everything that was to run
# did run and passed: a skipped test is a failed one.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. deploy/packages.sh

# Codecs: what reads bytes that others wrote, of which the corpora in the tree must reach so many lines in a hundred. Not among
# them: control/command_server.cc, of which control_socket_fuzz reaches all but sockets and files, which its own test does.
CODECS=(vswitch/wire/*.cc vswitch/fabric/softhca/{fabric_protocol,ring,subnet/subnet_config}.cc control/{config,json_stream}.cc)
LEAST_COVERAGE=95
# What an agent on a real HCA runs, as far as no test here has one: devices and ports, queue pairs and their errors, events, and
# the subnet administrator. VERBS_TESTS reach it by faults at the table of verbs and at the seam of MADs. Not among it:
# verbs_libibverbs.cc, whose lines are one call of libibverbs each.
VERBS_PATHS=(vswitch/fabric/{address_handles,buffer_pool,error_advice,hca,mads_when_there,sa_client,ud_endpoint,umad_transport,verbs_hca}.cc
  control/{agent,agent_wait,fabric_port,group_membership,partition_queue_pair,refresh_depth,resolver,subscriptions,ves}.cc)
VERBS_TESTS=(fabric_tests umad_transport_tests control_tests agent_tests)
LEAST_VERBS_COVERAGE=90
FUZZ_SECONDS=${EOIB_FUZZ_SECONDS:-600}  # of all targets together
# What --all builds beside the plain tree: by the compiler that has libFuzzer, and builds for sanitizers in half the time.
CLANG=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
FAILURES=()
SUMMARIES=()

usage() {
  sed -n '2,10s/^# \{0,1\}//p' "$0"
  exit "$1"
}

fail() {
  FAILURES+=("$*")
  echo "FAILED: $*" >&2
}

# What this script makes in TMPDIR goes with it, also when it is interrupted.
SCRATCH=()
trap 'rm -rf "${SCRATCH[@]}"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# scratch VARIABLE: makes such a directory.
scratch() {
  local -n made=$1
  made=$(mktemp -d) && SCRATCH+=("$made")
}

title() { printf '\n==== %s\n' "$*"; }

# "unit netns" -> the regular expression that ctest -L wants.
label_expression() {
  local expression
  printf -v expression '|%s' "$@"
  echo "^(${expression:1})\$"
}

# run_ctest BUILD CTEST_ARGUMENTS...: two tests at a time that compute, or four that wait (CMakeLists.txt, PROCESSORS); keeps ctest's
# summary for the end, under TITLE if that is set.
run_ctest() {
  local build=$1 log logs status temporary name=${TITLE:-$1}
  shift
  scratch logs
  log=$logs/ctest
  # What a test that was killed could not remove goes with this directory.
  scratch temporary
  (cd "$build" && TMPDIR=$temporary TEST_TMPDIR=$temporary ctest --output-on-failure --no-tests=error -j4 "$@") 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  rm -rf "$temporary"
  [ "$status" = 0 ] || fail "tests in $name"
  if grep -qE '\*\*\*(Not Run|Skipped)' "$log"; then fail "tests in $name that did not run"; fi
  # A test that GoogleTest skipped passes for ctest. Only its own log shows it.
  if grep -qE '^\[  SKIPPED \]' "$build/Testing/Temporary/LastTest.log"; then
    fail "tests in $name that were skipped"
    grep -E '^\[  SKIPPED \]' "$build/Testing/Temporary/LastTest.log" | sort -u
  fi
  SUMMARIES+=("$(printf '%s:\n' "$name"; sed -n '/tests passed/,$p' "$log")")
  rm -rf "$logs"
}

# build DIRECTORY "TARGET..." CMAKE_ARGUMENTS...
build() {
  local directory=$1 targets=$2
  shift 2
  title "build $directory"
  # shellcheck disable=SC2086
  build_tree "$directory" $targets -- -DCMAKE_BUILD_TYPE=RelWithDebInfo "$@" || { fail "build $directory"; return 1; }
}

# A cache of compiled files that is empty costs a tenth of the time to build, and gives nothing to a machine that builds once.
use_no_empty_cache() {
  if ccache --print-stats 2>/dev/null | grep -qE '^cache_size_kibibyte[[:space:]]+0$'; then export CCACHE_DISABLE=1; fi
}

# The same as build, beside what runs meanwhile and after it: whatever it finds, build says again.
build_ahead() {
  local directory=$1 targets=$2
  shift 2
  # shellcheck disable=SC2086
  (renice -n 19 "$BASHPID" >/dev/null; build_tree "$directory" $targets -- -DCMAKE_BUILD_TYPE=RelWithDebInfo "$@") >/dev/null 2>&1 &
}

TSAN=(build-tsan unit_tests -DEOIB_SANITIZE=thread "${CLANG[@]}")
run_sanitizers() {
  # Programs that are not ours (tshark, ibv_devinfo) run uninstrumented, with our preload library of the plain build. So do the
  # programs of the netns tests themselves: what is looked at are the agents and fabricd.
  export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  if build build-asan "unit_tests programs" -DEOIB_SANITIZE=address,undefined -DEOIB_FUZZ=ON "${CLANG[@]}"; then
    run_ctest build-asan -L "$(label_expression unit softhca-inprocess)"
    build_ahead "${TSAN[@]}"  # which takes what time those leave that wait for one another
    local ahead=$!
    TITLE="build, with the programs of build-asan" EOIB_SANITIZED_BIN=$PWD/build-asan/bin \
      run_ctest build -L "$(label_expression netns)"
    wait "$ahead"
    run_fuzzers
  fi
  build "${TSAN[@]}" &&
    run_ctest build-tsan -L "$(label_expression unit softhca-inprocess)"
}

# sources FILE...: without tests and fuzz targets, which stand beside them.
sources() { printf '%s\n' "$@" | grep -vE '_(test|fuzz|bench)\.cc$'; }

# coverage_table HEADING LEAST FILE...: from llvm-cov's report, a row for each file and one for all. Fails if a file is not in the
# report (no program is linked with it) or all together stay below LEAST percent of their lines.
coverage_table() {
  awk -v heading="$1" -v least="$2" -v files="$(sources "${@:3}")" '
    function percent(missed, all) { return all == 0 ? 100 : 100 * (all - missed) / all }
    function row(name, r, mr, l, ml) {
      printf "%-46s %7d %8.2f%% %7d %8.2f%%\n", name, l, percent(ml, l), r, percent(mr, r)
    }
    FNR == 1 { printf "%-46s %7s %9s %7s %9s\n", heading, "lines", "reached", "regions", "reached" }
    $1 ~ /\.cc$/ {
      found[$1] = 1
      row($1, $2, $3, $8, $9)
      regions += $2; missed_regions += $3; lines += $8; missed_lines += $9
    }
    END {
      row("all", regions, missed_regions, lines, missed_lines)
      count = split(files, expected, "\n")
      for (i = 1; i <= count; ++i) {
        if (!(expected[i] in found)) { print expected[i] ": nothing reaches it"; bad = 1 }
      }
      low = percent(missed_lines, lines) < least
      print "required: " least "% of the lines" (low ? ", and that is not reached" : "")
      if (low) bad = 1
      exit bad
    }'
}

# replay TARGET CORPUS DIRECTORY: leaves its counters in DIRECTORY.
replay() {
  LLVM_PROFILE_FILE=$3/$1.profraw TMPDIR=$3 "build-coverage/fuzz/$1" "$2" >"$3/log" 2>&1 && return
  tail -n 5 "$3/log"
  fail "replay of $2"
}

# report_coverage TITLE HEADING LEAST DIRECTORY PROGRAMS... -- FILE...: the table of what the counters in DIRECTORY say.
report_coverage() {
  local title=$1 heading=$2 least=$3 directory=$4 programs=() files
  shift 4
  while [ "$1" != -- ]; do
    programs+=(-object "$1")
    shift
  done
  shift
  mapfile -t files < <(sources "$@")
  llvm-profdata merge -sparse -o "$directory/profile" "$directory"/*.profraw &&
    llvm-cov report -compilation-dir="$PWD" -instr-profile="$directory/profile" "${programs[@]:1}" "${files[@]}" \
      >"$directory/report" 2>"$directory/log" || { cat "$directory/log"; fail "$title: no report"; }
  coverage_table "$heading" "$least" "$@" <"$directory/report" | tee "$directory/table"
  if [ "${PIPESTATUS[0]}" != 0 ]; then fail "$title"; fi
  SUMMARIES+=("$title: $(awk '/^all / { print $3 " of lines, " $5 " of regions" }' "$directory/table"), $least% of lines required")
}

# What the corpora in the tree reach by themselves, without any fuzzing.
cover_codecs() {
  local title="coverage of the codecs by the corpora in the tree" directory target corpus programs=()
  title "$title"
  scratch directory
  while read -r target corpus; do
    if [ -n "$target" ]; then
      replay "$target" "$corpus" "$directory"
      programs+=("build-coverage/fuzz/$target")
    fi
  done <build-coverage/fuzz_targets
  report_coverage "$title" codec "$LEAST_COVERAGE" "$directory" "${programs[@]}" -- "${CODECS[@]}"
  rm -rf "$directory"
}

# What the unit tests reach of an agent's way to a real HCA.
cover_verbs() {
  local title="coverage of the real HCA's paths by faults at verbs and MADs" directory test programs=() path
  title "$title"
  scratch directory
  for test in "${VERBS_TESTS[@]}"; do
    path=$(find build-coverage -type f -name "$test")
    programs+=("$path")
    LLVM_PROFILE_FILE=$directory/$test.profraw TMPDIR=$directory timeout 300 "$path" >"$directory/log" 2>&1 && continue
    grep -E '^\[  FAILED|Failure' "$directory/log" | head
    fail "$test with coverage"
  done
  report_coverage "$title" file "$LEAST_VERBS_COVERAGE" "$directory" "${programs[@]}" -- "${VERBS_PATHS[@]}"
  rm -rf "$directory"
}

run_coverage() {
  build build-coverage "fuzzers ${VERBS_TESTS[*]}" -DEOIB_COVERAGE=ON -DEOIB_PCH=OFF "${CLANG[@]}" || return
  cover_codecs
  cover_verbs
}

# fuzz_one TARGET CORPUS SECONDS DIRECTORY: in DIRECTORY, on a copy of the corpus, so that the tree stays clean.
fuzz_one() {
  local target=$1 corpus=$2 seconds=$3 directory=$4
  mkdir -p "$directory/corpus"
  cp -r "$corpus/." "$directory/corpus/" || return 1
  "build-asan/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$directory/" "$directory/corpus" >"$directory/log" 2>&1
}

# report_fuzz TARGET STATUS DIRECTORY
report_fuzz() {
  local target=$1 status=$2 directory=$3 runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$directory/log")
  if [ "$status" = 0 ] && [ -n "$runs" ]; then
    echo "$target: $runs runs, nothing found"
    return
  fi
  tail -n 60 "$directory/log"
  local kept=build-asan/found/$target input
  mkdir -p "$kept"
  for input in "$directory"/crash-* "$directory"/leak-* "$directory"/timeout-* "$directory"/oom-*; do
    [ -e "$input" ] || continue
    cp "$input" "$kept/"
    echo "input: $kept/$(basename "$input")"
    od -A x -t x1z "$input" | head -20
  done
  fail "fuzz target $target"
}

# Of build-asan.
run_fuzzers() {
  local targets=() corpora=() target corpus
  while read -r target corpus; do
    if [ -n "$target" ]; then
      targets+=("$target")
      corpora+=("$corpus")
    fi
  done <build-asan/fuzz_targets
  local count=${#targets[@]}
  [ "$count" -gt 0 ] || { fail "fuzzing: there is no target"; return; }
  local seconds=$((FUZZ_SECONDS / count))
  if [ "$seconds" -lt 20 ]; then seconds=20; fi
  title "fuzz: $count targets, $seconds seconds each, two at a time"
  local directory i statuses=()
  scratch directory
  for ((i = 0; i < count; i += 2)); do
    local pids=() j
    for ((j = i; j < i + 2 && j < count; ++j)); do
      fuzz_one "${targets[j]}" "${corpora[j]}" "$seconds" "$directory/${targets[j]}" &
      pids+=($!)
    done
    for ((j = i; j < i + ${#pids[@]}; ++j)); do
      wait "${pids[j - i]}"
      statuses[j]=$?
      report_fuzz "${targets[j]}" "${statuses[j]}" "$directory/${targets[j]}"
    done
  done
  rm -rf "$directory"
  SUMMARIES+=("fuzzing: $count targets, $seconds seconds each")
}

ALL=
LABELS=()
for argument in "$@"; do
  case $argument in
    --all) ALL=1 ;;
    -h | --help) usage 0 ;;
    -*) usage 2 ;;
    *) LABELS+=("$argument") ;;
  esac
done

install_packages build run test ${ALL:+bench all} || exit 1
use_no_empty_cache
if build build all -DCMAKE_CXX_COMPILER=g++; then
  title "test"
  if [ "${#LABELS[@]}" -gt 0 ]; then
    run_ctest build -L "$(label_expression "${LABELS[@]}")"
  else
    # All scenarios in the virtual machine, or some of each kind.
    if [ -n "$ALL" ]; then run_ctest build -E '^vm_scenarios_'; else run_ctest build -LE '^vm-all$'; fi
  fi
fi
if [ -n "$ALL" ]; then
  build build benchmarks -DCMAKE_CXX_COMPILER=g++
  run_sanitizers
  run_coverage
fi

title "summary"
printf '%s\n\n' "${SUMMARIES[@]}"
if [ "${#FAILURES[@]}" -gt 0 ]; then
  printf 'FAILED: %s\n' "${FAILURES[@]}"
  exit 1
fi
echo "all passed"
