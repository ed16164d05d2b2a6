# Sourced by tests/run.sh --all: measures which lines of some files the fuzz corpora and the unit tests reach.

# Codecs, which parse input from others: the corpora in the tree must reach LEAST_COVERAGE percent of their lines. Without
# wire/mgid.cc, which has no parser, and vswitch/base/daemon/command_server.cc: control_socket_fuzz reaches all of it but the code for
# sockets and files, which its unit test covers.
CODECS=(vswitch/wire/{checksum,eoib_header,ethernet,flow_hash,ipoib_group,ipoib_header,segment_extension,super_frame,vport_message}.cc
  vswitch/wire/ib/*.cc vswitch/wire/ip/*.cc
  vswitch/fabric/softhca/{fabric_protocol,ring,subnet/subnet_config}.cc control/config/{config,table_reader}.cc vswitch/base/daemon/json_stream.cc)
LEAST_COVERAGE=95
# Code for a real HCA, which no test machine has: devices and ports, queue pairs and their errors, events, the SA. VERBS_TESTS
# reach it by injecting faults at the verbs table and the MAD transport. Without verbs_libibverbs.cc, whose lines only call
# libibverbs.
VERBS_PATHS=(vswitch/fabric/{address_handles,buffer_pool,error_advice,group_attachments,hca,reopening_mad_transport,sa_client,ud_endpoint,umad_transport,verbs_hca}.cc
  control/{agent,ves/ves}.cc
  control/subnet/{fabric_port,group_membership,partition_queue_pair,path_resolver,refresh_depth,subscriptions}.cc)
VERBS_TESTS=(fabric_tests umad_transport_tests control_tests agent_tests)
LEAST_VERBS_COVERAGE=90

# sources FILE...: prints those that are no tests, fuzz targets or benchmarks.
sources() { printf '%s\n' "$@" | grep -vE '_(test|fuzz|bench)\.cc$'; }

# coverage_table HEADING LEAST FILE...: prints a row for each file and one for all, from llvm-cov's report. Fails if a file is
# not in the report (no program is linked with it), or if the coverage of all together is below LEAST percent.
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
        if (!(expected[i] in found)) { print expected[i] ": not in the report: no program contains it"; bad = 1 }
      }
      low = percent(missed_lines, lines) < least
      print "required: " least "% of the lines" (low ? ", not reached" : "")
      if (low) bad = 1
      exit bad
    }'
}

# replay TARGET CORPUS DIRECTORY: runs a fuzz target on its corpus; its counters go to DIRECTORY.
replay() {
  LLVM_PROFILE_FILE=$3/$1.profraw TMPDIR=$3 "build-coverage/fuzz/$1" "$2" >"$3/log" 2>&1 && return
  tail -n 5 "$3/log"
  fail "replay of $2"
}

# report_coverage TITLE HEADING LEAST DIRECTORY PROGRAMS... -- FILE...: prints the table for the counters in DIRECTORY.
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

# The coverage of the corpora in the tree, without any fuzzing.
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

# The coverage of the code for a real HCA by the unit tests.
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

cover_all() {
  cover_codecs
  cover_verbs
}
