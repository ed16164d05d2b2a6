#!/bin/bash
# Runs deploy/quickstart.sh, and checks its output and that it leaves nothing behind.
#
#   quickstart_test.sh BUILD
set -euo pipefail
# Runs in PID and mount namespaces of its own, so that processes, mounts and named network namespaces disappear with it.
if [ -z "${EOIB_QUICKSTART_INSIDE:-}" ]; then
  export EOIB_QUICKSTART_INSIDE=1
  exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$@"
fi
mount -t tmpfs tmpfs /run
ROOT=$(cd "$(dirname "$0")/.." && pwd)
export EOIB_QUICKSTART_NAME=eoibt$$ EOIB_QUICKSTART_SECONDS=1 EOIB_QUICKSTART_BUILD=$1
fail() { echo "FAILED: $*" >&2; exit 1; }

output=$("$ROOT/deploy/quickstart.sh" 2>&1) || { echo "$output"; "$ROOT/deploy/quickstart.sh" --down; fail "the quickstart's exit status is not 0"; }
echo "$output"
[ "$(grep -c ' 3 received, 0% packet loss' <<<"$output")" = 4 ] || fail "not all pings were answered"
grep -Eq '^  eoib +[0-9.]+ Gb/s' <<<"$output" || fail "no TCP figure"
grep -Eq '^  kernel VXLAN +[0-9.]+ Gb/s' <<<"$output" || fail "no TCP figure of VXLAN"
[ "$(grep -c '^== FDB of h' <<<"$output")" = 3 ] || fail "not three FDBs"
grep -q 'does not reach it in P_Key 0x8002' <<<"$output" || fail "isolation was not shown"
if ip netns list | grep -q "^$EOIB_QUICKSTART_NAME-"; then fail "a network namespace was left behind"; fi
[ ! -e "/run/$EOIB_QUICKSTART_NAME-quickstart" ] || fail "the run directory was left behind"
if pgrep -f "/run/$EOIB_QUICKSTART_NAME-quickstart" >/dev/null; then fail "a process was left behind"; fi
echo "quickstart: all checks passed"
