#!/bin/bash
# Checks the bash completion in deploy/completion against the programs: it offers all their flags, commands, subcommands and names,
# and nothing else. Starts the programs on a software subnet, in a network namespace of its own, as root.
#
# check_completion.sh BUILD_DIR
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$root/tests/structure/running_programs.sh"

# complete_line WORD...: what completion offers for the last word, one a line.
complete_line() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
  COMP_TYPE=9 COMP_KEY=9
  local function=_eoib_daemon
  [ "${1##*/}" != eoibctl ] || function=_eoibctl
  "$function" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}"
}

# offers EXPECTED WORD...: for this line completion offers exactly the expected words, in any order.
offers() {
  local expected found
  expected=$(tr -s ' ' '\n' <<<"$1" | sed '/^$/d' | sort -u)
  shift
  found=$(complete_line "$@" | sed '/^$/d' | sort -u)
  [ "$found" = "$expected" ] || { echo "completion of \"$*\": expected $(echo $expected), got $(echo $found)"; failed=1; }
}

check_commands() {
  local ctl=("$bin/eoibctl" --rundir="$1") program commands first
  for program in eoibd eoib-gateway eoib-ipoib fabricd; do
    commands=$("${ctl[@]}" -t $program help | awk '/^  / { print $1 }')
    offers "$(sed 's#/.*##' <<<"$commands")" "${ctl[@]}" -t $program ""
    for first in $(grep / <<<"$commands" | sed 's#/.*##' | sort -u); do
      grep -qx "$first" <<<"$commands" || offers "$(sed -n "s#^$first/##p" <<<"$commands" | sed 's#/.*##')" "${ctl[@]}" -t $program "$first" ""
    done
  done
}

check_names() {
  local ctl=("$bin/eoibctl" --rundir="$1")
  offers "eoibd eoib-gateway eoib-ipoib fabricd" "${ctl[@]}" -t ""
  offers "eoib-gateway" "${ctl[@]}" --target=eoib-g
  offers "blue" "${ctl[@]}" fdb show ""
  offers "blue" "${ctl[@]}" fdb get ""
  offers "v1" "${ctl[@]}" vport set ""
  offers "blue" "${ctl[@]}" ves del ""
  offers "pin_mac=" "${ctl[@]}" vport set v1 pi
  offers "pin_mac=" "${ctl[@]}" vport add v9 ves=blue pi
  offers "move_damping= mtu=" "${ctl[@]}" ves set blue m
  offers "pkey= prefixes= priority= peers=" "${ctl[@]}" -t eoib-gateway gateway set gw0 p
  offers "vlan vport sticky" "${ctl[@]}" fdb flush blue ""
  offers "v1" "${ctl[@]}" fdb flush blue vport ""
  offers "hex" "${ctl[@]}" trace v1 ""
  offers "ethernet ipoib" "${ctl[@]}" -t eoib-gateway gateway trace gw0 ""
  offers "gw0" "${ctl[@]}" -t eoib-gateway gateway stats ""
  offers "gw0" "${ctl[@]}" -t eoib-gateway gateway set ""
  offers "vlan= vport=" "${ctl[@]}" capture start /x v
  offers "info warning" "${ctl[@]}" log set ""
  offers "up" "${ctl[@]}" -t fabricd link h1 u
}

# In a network namespace of its own.
check_running() {
  failed=0
  . /usr/share/bash-completion/bash_completion
  . "$root/deploy/completion/eoibctl"
  . "$root/deploy/completion/eoibd"
  rundir=$(mktemp -d)
  start_programs "$rundir"
  if wait_for_programs "$rundir"; then
    check_commands "$rundir"
    check_names "$rundir"
  else
    failed=1
  fi
  stop_programs
  rm -rf "$rundir"
  for pair in eoibd:control/eoibd_main.cc eoib-gateway:gateway/eoib_gateway_main.cc eoib-ipoib:gateway/host/eoib_ipoib_main.cc \
    eoib-fabricd:vswitch/fabric/softhca/fabricd/fabricd_main.cc; do
    expect_flags "${pair%%:*}" "$root/${pair#*:}"
  done
  expect_flags eoibctl "$root/control/eoibctl_main.cc"
  [ "$failed" = 0 ] && echo "completion: complete and correct"
}

# expect_flags PROGRAM SOURCE: completion has the flags that the main defines; --help and --version may be there, too.
expect_flags() {
  local expected found
  expected=$(flags_of "$2" | sort -u)
  found=$(complete_line "$bin/$1" - | sed 's/=$//' | grep -vx -e --help -e --version | sort -u)
  [ "$found" = "$expected" ] || { echo "flags of $1: expected $(echo $expected), got $(echo $found)"; failed=1; }
}

case "${1:-}" in
  "") echo "usage: $0 BUILD_DIR" >&2; exit 2 ;;
  --in-namespace) bin=$2/bin && check_running ;;
  *) exec unshare --net "$BASH" "${BASH_SOURCE[0]}" --in-namespace "$1" ;;
esac
