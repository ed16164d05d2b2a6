#!/bin/bash
# Checks the manual pages in deploy/man: each has exactly the flags, keys of partitions.toml and commands (with their arguments) that the
# programs have, and man and mandoc have nothing to say about them. Starts the programs on a software subnet, in a network namespace of
# its own, as root. config_keys_test.cc and gateway_keys_test.cc check the other pages of section 5.
#
# check_man.sh BUILD_DIR    checks the pages of this tree
# check_man.sh --self-test  tests the check
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/structure/running_programs.sh"

# items PAGE SECTION: what the items of a section are, one a line: "--hca", "fdb get VES VLAN MAC". An item begins with .TP and a
# line with .B or .BR.
items() {
  awk -v section="$2" '
    /^\.SH / { in_section = $0 == ".SH " section || $0 == ".SH \"" section "\""; next }
    /^\.TP/ { head = 1; next }
    head && in_section { print }
    { head = 0 }' "$1" |
    sed -E 's/^\.BR? //; s/^"([^"]*)"/\1/; s/ ?"([^"]*)"$/\1/; s/^([^ "]+) (=[^ ]*)$/\1\2/; s/\\\(dq/"/g; s/\\-/-/g'
}

# without_value: "--hca=PORT", "-t NAME", "pkey = 0x8001" on standard input become "--hca", "-t", "pkey".
without_value() { sed 's/[ =].*//'; }

# compare PAGE WHAT EXPECTED FOUND: prints a line for each difference between two lists of lines.
compare() {
  local line
  comm -23 <(sort -u <<<"$3") <(sort -u <<<"$4") | while read -r line; do [ -z "$line" ] || echo "$1: no $2 \"$line\""; done
  comm -13 <(sort -u <<<"$3") <(sort -u <<<"$4") | while read -r line; do [ -z "$line" ] || echo "$1: there is no $2 \"$line\""; done
}

# commands_of RUNDIR PROGRAM: "fdb get VES VLAN MAC".
commands_of() {
  "$bin/eoibctl" --rundir="$1" -t "$2" help | sed -n 's/^  //p' | awk '{ name = $1; gsub("/", " ", name); $1 = name; print }'
}

find_style_mistakes() {
  local page
  for page in "$1"/*.[58]; do
    mandoc -Tlint "$page"
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null
  done
}

check_flags() {
  local pair page
  for pair in eoibd:control/eoibd_main.cc eoibctl:control/eoibctl_main.cc eoib-gateway:gateway/eoib_gateway_main.cc \
    eoib-ipoib:gateway/host/eoib_ipoib_main.cc eoib-fabricd:vswitch/fabric/softhca/fabricd/fabricd_main.cc; do
    page=$1/${pair%%:*}.8
    compare "$page" flag "$(flags_of "$root/${pair#*:}")" "$(items "$page" FLAGS | without_value)"
  done
}

check_keys() {
  local page=$1/partitions.toml.5
  compare "$page" key "$(grep -oP 'key == "\K[a-z_]+' "$root/vswitch/fabric/softhca/subnet/subnet_config.cc")" \
    "$(items "$page" KEYS | without_value)"
}

# The commands of eoibd are in eoibctl(8). The page of another program has the commands that are not there.
check_commands() {
  local rundir=$2 program page general commands
  general=$(items "$1/eoibctl.8" COMMANDS)
  compare "$1/eoibctl.8" command "$(commands_of "$rundir" eoibd)" "$general"
  for program in eoib-gateway eoib-ipoib fabricd; do
    page=$1/eoib-${program#eoib-}.8
    commands=$(commands_of "$rundir" "$program")
    compare "$page" command "$(comm -23 <(sort <<<"$commands") <(sort <<<"$general"))" \
      "$(comm -23 <(items "$page" COMMANDS | sort) <(sort <<<"$general"))"
    compare "$page" command "$commands" "$(comm -12 <(items "$page" COMMANDS | sort) <(sort <<<"$general"); cat <<<"$commands")"
  done
}

# In a network namespace of its own: "in_namespace PAGES".
check_running() {
  rundir=$(mktemp -d)
  start_programs "$rundir"
  wait_for_programs "$rundir" && check_commands "$1" "$rundir"
  stop_programs
  rm -rf "$rundir"
}

find_mistakes() {
  find_style_mistakes "$1"
  check_flags "$1"
  check_keys "$1"
  unshare --net "$BASH" "${BASH_SOURCE[0]}" --commands "$bin" "$1"
}

check() {
  bin=$1/bin
  mistakes=$(find_mistakes "$root/deploy/man" 2>&1)
  if [ -n "$mistakes" ]; then
    echo "$mistakes"
    return 1
  fi
  echo "manual pages: complete and correct"
}

# expect WHAT EXPECTED COMMAND...: the command prints exactly that.
expect() {
  local what=$1 expected=$2 output
  shift 2
  output=$("$@" 2>&1)
  [ "$output" = "$expected" ] && return
  echo "self-test: $what: expected \"$expected\", got \"$output\""
  failed=1
}

test_check() {
  directory=$(mktemp -d)
  cat >"$directory/a.8" <<'PAGE'
.TH A 8 2026-01-01 a "a"
.SH NAME
a \- b
.SH FLAGS
.TP
.BR \-\-hca =PORT
the port
.B no item
.TP
.B \-\-yes
.SH COMMANDS
.TP
.BR "fdb get" " VES MAC"
.TP
.BR mtu " = \(dqx\(dq"
.TP
.B show
PAGE
  expect "items of a section" $'--hca=PORT\n--yes' items "$directory/a.8" FLAGS
  expect "items with arguments" $'fdb get VES MAC\nmtu = "x"\nshow' items "$directory/a.8" COMMANDS
  printf 'DEFINE_string(hca, "",\n  "x");\nDEFINE_bool(\n    wait_for, false, "DEFINE_bool");\nDEFINE_string(t, "", "")\n' >"$directory/main.cc"
  expect "flags of a main" $'--hca\n--wait_for\n-t' flags_of "$directory/main.cc"
  expect "what is missing or too much" $'page: no flag "--b"\npage: there is no flag "--c"' \
    compare page flag $'--a\n--b' $'--c\n--a'
  expect "nothing" "" compare page flag "" ""
  printf '.TH A 8 2026-01-01 a "a"\n.SH NAME\na \\- b\n.XX\n' >"$directory/bad.8"
  rm "$directory/a.8"
  find_style_mistakes "$directory" | grep -q 'unknown macro' || { echo "self-test: an unknown macro is not found"; failed=1; }
  rm -rf "$directory"
}

if [ "${1:-}" = --commands ]; then
  bin=$2
  check_running "$3"
  exit
fi
. "$root/tests/structure/command_line.sh"
