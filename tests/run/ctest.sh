# Sourced by tests/run.sh: runs tests with ctest, repeats failed ones, and reports times.
#
# A failed test is repeated twice, alone, after all others; if it passes both times, it counts as "unsteady". At most three
# tests may be unsteady. No second try for: the labels unit and structure, a crash, a sanitizer report, a failed check, a
# violated conservation law, and a test that did not run or was skipped. OpenSM may crash when it ends; that is no reason.

MOST_UNSTEADY=3
NO_SECOND_TRY_LABELS='^(unit|structure)$'
# The messages of vswitch/base/check.h, of the sanitizers' runtimes and of tests/lab.
NO_SECOND_TRY_OUTPUT='check failed: |(Address|Leak|Thread|UndefinedBehavior)Sanitizer|: runtime error: |crashed: |Segmentation fault|Aborted|conservation of '

FAILURES=()
SUMMARIES=()
TO_REPEAT=()  # "BUILD TEST LOG ENVIRONMENT" of tests to repeat; the first three have no spaces
UNSTEADY=()
TIMES=()       # "SECONDS what" of builds and stages
TEST_TIMES=()  # "SECONDS test (stage)"

fail() {
  FAILURES+=("$*")
  echo "FAILED: $*" >&2
}

title() { printf '\n==== %s\n' "$*"; }

# timed WHAT COMMAND...: runs the command and records its time.
timed() {
  local what=$1 begin=$SECONDS status=0
  shift
  "$@" || status=$?
  TIMES+=("$((SECONDS - begin)) $what")
  return $status
}

# label_expression LABEL...: the regular expression for ctest -L.
label_expression() {
  local expression
  printf -v expression '|%s' "$@"
  echo "^(${expression:1})\$"
}

# ctest_in BUILD "ENVIRONMENT" ARGUMENTS...: ctest with its own temporary directory, deleted with what killed tests left there.
ctest_in() {
  local build=$1 environment=$2 temporary status
  shift 2
  scratch temporary
  chmod 755 "$temporary"  # some tests try what another user may do
  # shellcheck disable=SC2086
  (cd "$build" && env $environment TMPDIR="$temporary" TEST_TMPDIR="$temporary" ctest --no-tests=error "$@") 2>&1
  status=$?
  rm -rf "$temporary"
  return $status
}

# output_of LAST_TEST_LOG TEST: the output of that test, from ctest's log of all tests.
output_of() {
  awk -v test="$2" '
    /^ *[0-9]+\/[0-9]+ Test: / { mine = $3 == test; output = 0 }
    /^<end of output>$/ { output = 0 }
    mine && output
    /^Output:$/ { output = 1 }' "$1"
}

# may_repeat BUILD TEST STATUS LOG: whether a failed test gets a second try.
may_repeat() {
  case $3 in Failed | Timeout) ;; *) return 1 ;; esac  # other results are signals and tests that did not run
  ! grep -v 'crashed: opensm, ' "$4" | grep -qE "$NO_SECOND_TRY_OUTPUT" && (cd "$1" && ctest -N -R "^$2\$" -LE "$NO_SECOND_TRY_LABELS" | grep -q 'Total Tests: 1')
}

# what_failed LOG: prints the failed GoogleTest cases, or the last line if there are none.
what_failed() {
  local cases
  cases=$(sed -nE 's/^\[  FAILED  \] ([^ ,]+)[ ,].*ms\)\r?$/\1/p' "$1" | sort -u | paste -sd' ')
  echo "${cases:-$(grep -v '^\s*$' "$1" | tail -n 1 | cut -c1-100)}"
}

# triage STAGE BUILD "ENVIRONMENT" DIRECTORY_OF_LOGS: for each failed test, fails the run or schedules a second try.
triage() {
  local stage=$1 build=$2 environment=$3 log=$4 test status kept=$2/failed
  while read -r test status; do
    mkdir -p "$kept"
    output_of "$log/LastTest.log" "$test" >"$kept/$test.log"
    if [ "$status" = Timeout ]; then echo "ended by ctest's time limit" >>"$kept/$test.log"; fi
    if may_repeat "$build" "$test" "$status" "$kept/$test.log"; then
      TO_REPEAT+=("$build $test $kept/$test.log $environment")
    else
      fail "$test in $stage ($status: $(what_failed "$kept/$test.log"))"
    fi
  done < <(sed -nE 's/^\s+[0-9]+ - (\S+) \(([^)]*)\).*/\1 \2/p' "$log/ctest")
}

# run_ctest STAGE BUILD "ENVIRONMENT" CTEST_ARGUMENTS...: runs two tests at a time that compute, or four that mostly wait
# (CMakeLists.txt, PROCESSORS). Records ctest's summary and the tests' times.
run_ctest() {
  local stage=$1 build=$2 environment=$3 log before=${#FAILURES[@]} aside=${#TO_REPEAT[@]} begin=$SECONDS status
  shift 3
  scratch log
  ctest_in "$build" "$environment" --output-on-failure -j4 "$@" | tee "$log/ctest"
  status=${PIPESTATUS[0]}
  TIMES+=("$((SECONDS - begin)) tests of $stage")
  cp "$build/Testing/Temporary/LastTest.log" "$log/"  # every later call of ctest overwrites it
  triage "$stage" "$build" "$environment" "$log"
  # ctest failed without a failed test: then ctest itself has a problem.
  if [ "$status" != 0 ] && [ "${#FAILURES[@]}" = "$before" ] && [ "${#TO_REPEAT[@]}" = "$aside" ]; then fail "ctest in $stage"; fi
  if grep -qE '\*\*\*(Not Run|Skipped)' "$log/ctest"; then fail "tests in $stage that did not run"; fi
  # ctest counts a test that GoogleTest skipped as passed; only the log shows it.
  if grep -E '^\[  SKIPPED \]' "$log/LastTest.log" | sort -u | grep .; then fail "tests in $stage that were skipped"; fi
  SUMMARIES+=("$(printf '%s:\n' "$stage"; sed -n '/tests passed/,$p' "$log/ctest")")
  mapfile -t -O "${#TEST_TIMES[@]}" TEST_TIMES < <(
    sed -nE "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: (\S+) .* ([0-9]+)\.[0-9]+ sec.*/\2 \1 ($stage)/p" "$log/ctest")
  rm -rf "$log"
}

# Repeats the scheduled tests, each twice and alone; reports those that pass in build/unsteady.txt.
repeat_failed_tests() {
  local entry build test log environment
  rm -f build/unsteady.txt
  for entry in "${TO_REPEAT[@]}"; do
    read -r build test log environment <<<"$entry"
    title "second try of $test"
    if timed "second try of $test" ctest_in "$build" "$environment" --output-on-failure -R "^$test\$" --repeat until-fail:2; then
      UNSTEADY+=("unsteady: $test ($(what_failed "$log")), see $log")
    else
      fail "$test, again when run alone ($(what_failed "$log"))"
    fi
  done
  if [ "${#UNSTEADY[@]}" = 0 ]; then return; fi
  printf '%s\n' "${UNSTEADY[@]}" | tee build/unsteady.txt
  if [ "${#UNSTEADY[@]}" -gt "$MOST_UNSTEADY" ]; then fail "${#UNSTEADY[@]} unsteady tests; at most $MOST_UNSTEADY are accepted"; fi
}

# The last part of the summary.
report_times() {
  echo "duration of each stage, in seconds; total $SECONDS:"
  printf '%s\n' "${TIMES[@]}" | sort -rn | sed 's/^/  /'
  echo "the 20 slowest tests:"
  printf '%s\n' "${TEST_TIMES[@]}" | sort -rn | head -n 20 | sed 's/^/  /'
}
