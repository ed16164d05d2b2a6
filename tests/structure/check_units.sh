#!/bin/sh
# Checks the systemd units in deploy/systemd: systemd understands every line, each program that they start is built and knows
# its flags, and systemd's rating of what a service could do if it were taken over is low.
#
# check_units.sh BUILD_DIR    checks the units of this tree
# check_units.sh --self-test  tests the check
set -eu

# In tenths, of the "exposure level" of systemd-analyze security: 0 is best, 100 is a service that may do everything.
MOST_EXPOSURE=25

# Prints a line for each mistake in the units in $1, whose programs are in $2.
find_mistakes() {
  staged=$(mktemp -d)
  for unit in "$1"/*.service; do
    [ -e "$unit" ] || { echo "$1: no units"; continue; }
    # systemd checks that the program exists, so point to the built one. A template needs an instance name.
    name=$(basename "$unit" | sed 's/@\.service$/@x.service/')
    sed "/^Exec/s#/usr/bin/#$2/#" "$unit" >"$staged/$name"
    # systemd-analyze exits with 0 even for a line that it does not know.
    systemd-analyze verify --man=no "$staged/$name" 2>&1 | grep -F -e "$name" -e "$staged" || true
    find_unknown_flags "$unit" "$2"
    find_exposure "$unit" "$staged/$name"
    find_open_state "$unit"
  done
  rm -rf "$staged"
}

# find_unknown_flags UNIT DIRECTORY_OF_PROGRAMS
find_unknown_flags() {
  sed -n 's/^ExecStart\(Pre\)\{0,1\}=//p' "$1" | while read -r command; do
    program=$2/$(basename "${command%% *}")
    [ -x "$program" ] || { echo "$1: starts $program, which is not built"; continue; }
    help=$("$program" --help)
    for word in $command; do
      case "$word" in --*) ;; *) continue ;; esac
      flag=$(echo "$word" | sed 's/^--//; s/=.*//')
      echo "$help" | grep -q -e "^ *-$flag (" || echo "$1: $(basename "$program") has no flag --$flag"
    done
  done
}

# find_exposure UNIT STAGED_UNIT
find_exposure() {
  systemd-analyze security --offline=yes --no-pager --threshold=$MOST_EXPOSURE "$2" >"$2.exposure" 2>&1 && return
  echo "$1: exposed more than ${MOST_EXPOSURE%?}.${MOST_EXPOSURE#?}: $(tail -n 1 "$2.exposure"); see systemd-analyze security --offline=yes $1"
}

# find_open_state UNIT: any user can lock a directory that he can open, and a program does not start with a locked state directory.
find_open_state() {
  grep -q '^StateDirectory=' "$1" || return 0
  grep -qx 'StateDirectoryMode=0700' "$1" || echo "$1: StateDirectory without StateDirectoryMode=0700"
}

check() {
  mistakes=$(find_mistakes "$(dirname "$0")/../../deploy/systemd" "$1/bin")
  if [ -n "$mistakes" ]; then
    echo "$mistakes"
    return 1
  fi
  echo "units: systemd and the programs understand them"
}

# expect WHAT TEXT UNIT_LINES [HARDENING]: for a unit with these lines the check prints TEXT (empty: nothing).
expect() {
  printf '[Service]\n%b\n%b\n' "$3" "${4-$HARDENING}" >"$directory/units/a@.service"
  output=$(find_mistakes "$directory/units" "$directory/bin" 2>&1)
  if [ -z "$2" ] && [ -z "$output" ]; then return; fi
  if [ -n "$2" ] && echo "$output" | grep -q -F -e "$2"; then return; fi
  echo "self-test: $1: expected \"$2\", got: $output"
  failed=1
}

# Enough for the bound.
HARDENING='DynamicUser=yes\nPrivateDevices=yes\nPrivateNetwork=yes\nPrivateUsers=yes\nProtectClock=yes\nProtectControlGroups=yes
ProtectHome=yes\nProtectHostname=yes\nProtectKernelLogs=yes\nProtectKernelModules=yes\nProtectKernelTunables=yes
CapabilityBoundingSet=\nRestrictNamespaces=yes\nRestrictAddressFamilies=AF_UNIX\nSystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources'

test_check() {
  directory=$(mktemp -d)
  mkdir "$directory/units" "$directory/bin"
  printf '#!/bin/sh\necho "    -name (what it is called) type: string"\n' >"$directory/bin/program"
  chmod +x "$directory/bin/program"
  expect "a good unit" "" 'ExecStart=/usr/bin/program --name=%i'
  expect "a key that systemd does not have" "Unknown key" 'ExecStart=/usr/bin/program\nLimitMemory=1'
  expect "a value that it does not take" "Failed to parse" 'ExecStart=/usr/bin/program\nRestart=sometimes'
  expect "a flag that the program does not have" "program has no flag --nam" 'ExecStart=/usr/bin/program --nam=%i'
  expect "a flag in another's help text" "program has no flag --string" 'ExecStart=/usr/bin/program --string'
  expect "a flag of another command" "program has no flag --check" 'ExecStartPre=/usr/bin/program --check\nExecStart=/usr/bin/program'
  expect "a program that is not built" "which is not built" 'ExecStart=/usr/bin/other'
  expect "a service that may do everything" "exposed more than 2.5" 'ExecStart=/usr/bin/program' ''
  expect "a state directory that others can lock" "without StateDirectoryMode=0700" 'ExecStart=/usr/bin/program\nStateDirectory=x'
  expect "one that they cannot" "" 'ExecStart=/usr/bin/program\nStateDirectory=x\nStateDirectoryMode=0700'
  rm "$directory/units/a@.service"
  [ "$(find_mistakes "$directory/units" "$directory/bin")" = "$directory/units: no units" ] || { echo "self-test: no units"; failed=1; }
  rm -rf "$directory"
}

. "$(dirname "$0")/command_line.sh"
