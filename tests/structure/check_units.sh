#!/bin/sh
# Checks the systemd units in deploy/systemd: systemd understands every line, and each program that they start is built and
# knows its flags.
#
# check_units.sh BUILD_DIR    checks the units of this tree
# check_units.sh --self-test  tests the check
set -eu

# Prints a line for each mistake in the units in $1, whose programs are in $2.
find_mistakes() {
  staged=$(mktemp -d)
  for unit in "$1"/*.service; do
    [ -e "$unit" ] || { echo "$1: no units"; continue; }
    # systemd checks that the program exists, so point to the built one. A template needs an instance name.
    name=$(basename "$unit" | sed 's/@\.service$/@x.service/')
    sed "s#/usr/local/bin/#$2/#" "$unit" >"$staged/$name"
    # systemd-analyze exits with 0 even for a line that it does not know.
    systemd-analyze verify --man=no "$staged/$name" 2>&1 | grep -F -e "$name" -e "$staged" || true
    find_unknown_flags "$unit" "$2"
  done
  rm -rf "$staged"
}

find_unknown_flags() {
  command=$(sed -n 's/^ExecStart=//p' "$1")
  program=$2/$(basename "${command%% *}")
  [ -x "$program" ] || { echo "$1: starts $program, which is not built"; return; }
  help=$("$program" --help)
  for word in $command; do
    case "$word" in --*) ;; *) continue ;; esac
    flag=$(echo "$word" | sed 's/^--//; s/=.*//')
    echo "$help" | grep -q -e "^ *-$flag (" || echo "$1: $(basename "$program") has no flag --$flag"
  done
}

check() {
  mistakes=$(find_mistakes "$(dirname "$0")/../../deploy/systemd" "$1/bin")
  if [ -n "$mistakes" ]; then
    echo "$mistakes"
    return 1
  fi
  echo "units: systemd and the programs understand them"
}

# expect WHAT TEXT UNIT_LINES: for a unit with these lines the check prints TEXT (empty: nothing).
expect() {
  printf '[Service]\n%b\n' "$3" >"$directory/units/a@.service"
  output=$(find_mistakes "$directory/units" "$directory/bin" 2>&1)
  if [ -z "$2" ] && [ -z "$output" ]; then return; fi
  if [ -n "$2" ] && echo "$output" | grep -q -F -e "$2"; then return; fi
  echo "self-test: $1: expected \"$2\", got: $output"
  failed=1
}

test_check() {
  directory=$(mktemp -d)
  mkdir "$directory/units" "$directory/bin"
  printf '#!/bin/sh\necho "    -name (what it is called) type: string"\n' >"$directory/bin/program"
  chmod +x "$directory/bin/program"
  expect "a good unit" "" 'ExecStart=/usr/local/bin/program --name=%i'
  expect "a key that systemd does not have" "Unknown key" 'ExecStart=/usr/local/bin/program\nLimitMemory=1'
  expect "a value that it does not take" "Failed to parse" 'ExecStart=/usr/local/bin/program\nRestart=sometimes'
  expect "a flag that the program does not have" "program has no flag --nam" 'ExecStart=/usr/local/bin/program --nam=%i'
  expect "a flag in another's help text" "program has no flag --string" 'ExecStart=/usr/local/bin/program --string'
  expect "a program that is not built" "which is not built" 'ExecStart=/usr/local/bin/other'
  rm "$directory/units/a@.service"
  [ "$(find_mistakes "$directory/units" "$directory/bin")" = "$directory/units: no units" ] || { echo "self-test: no units"; failed=1; }
  rm -rf "$directory"
}

. "$(dirname "$0")/command_line.sh"
