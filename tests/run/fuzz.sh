# Sourced by tests/run.sh --all: runs the fuzz targets of build-asan.

FUZZ_SECONDS=${EOIB_FUZZ_SECONDS:-100}  # for all targets together

# fuzz_one TARGET CORPUS SECONDS DIRECTORY: fuzzes in DIRECTORY with a copy of the corpus, so that the tree stays clean.
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
  if [ "$seconds" -lt 8 ]; then seconds=8; fi
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
