#!/bin/bash
# Tests boot.sh itself: a failure inside the machine must be a failure outside.
set -uo pipefail
boot=$(dirname "$0")/boot.sh
mark=$(mktemp)
trap 'rm -f "$mark"' EXIT
failures=0

# expect WHAT WANTED GOT
expect() {
  if [ "$2" = "$3" ]; then return; fi
  printf '%s: expected "%s", got "%s"\n' "$1" "$2" "$3"
  failures=1
}

output=$(EOIB_WORD='two words' "$boot" --modprobe tun -- bash -c '
  uname -s; echo "$EOIB_WORD"; pwd; test -c /dev/net/tun && echo tun; echo inside >"$1"; exit 3' bash "$mark" 2>/dev/null)
expect 'exit status' 3 $?
expect 'output' "Linux|two words|$PWD|tun" "$(head -n 4 <<<"$output" | paste -sd '|')"
expect 'this machine'\''s file' '' "$(cat "$mark")"

"$boot" --modprobe no_such_module -- true >/dev/null 2>&1
expect 'exit status without its module' 125 $?

# A kernel that hangs is restarted, a limited number of times.
output=$(EOIB_VM_BOOT_SECONDS=1 "$boot" -- true 2>&1)
expect 'exit status of a kernel that never comes up' 125 $?
expect 'attempts' 3 "$(grep -c 'did not come up within 1 s' <<<"$output")"

if [ "$failures" = 0 ]; then echo "[  PASSED  ] boot.sh"; fi
exit "$failures"
