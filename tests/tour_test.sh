#!/bin/bash
# Follows "A first configuration" of the top README: types what it says, and compares what it shows.
#
#   tour_test.sh BUILD
set -euo pipefail
# In PID and mount namespaces of its own, so that processes and named network namespaces disappear with it.
if [ -z "${EOIB_TOUR_INSIDE:-}" ]; then
  export EOIB_TOUR_INSIDE=1
  exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0" "$@"
fi
ROOT=$(cd "$(dirname "$0")/.." && pwd)
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir /tmp/tree /tmp/first
ln -s "$1" /tmp/tree/build  # the README says build/bin
cd /tmp/tree
fail() { echo "FAILED: $*" >&2; exit 1; }

# listing NUMBER: a listing of the chapter. 1: eoibd.toml, 2: the start, 3: a look, 4: what "show" answers, 5: the end.
listing() {
  sed -n '/^## A first configuration$/,/^## On real hardware$/p' "$ROOT/README.md" | awk -v wanted="$1" '
    /^        / { if (!inside) ++number; inside = 1; if (number == wanted) print substr($0, 9); next }
    /^$/ { if (inside && number == wanted) print; next }
    { inside = 0 }' | grep . || fail "the chapter has no listing $1"
}

# In place of the time that the README gives the agents: they are as slow as the machine is busy.
sleep() {
  local end=$((SECONDS + 60)) host
  for host in h1 h2; do
    until build/bin/eoibctl --rundir=/tmp/first -t "eoibd.$host" show 2>/dev/null | grep -q ': joined, '; do
      [ "$SECONDS" -lt "$end" ] || fail "the agent of $host has not joined"
      command sleep 0.1
    done
  done
}

# Numbers, addresses and GIDs differ from run to run.
shape() { sed -E 's/[0-9a-f]{2}(:[0-9a-f]{2}){5}/MAC/g; s/GID [0-9a-f:]+/GID/g; s/^eoib [0-9.]+ on [^,]+, up .*/eoib VERSION on HOST, up TIME/; s/(LID|QPN|FDB) (0x)?[0-9a-f]+/\1 N/g'; }

set -m  # for kill %1
listing 1 >/tmp/first/eoibd.toml
eval "$(listing 2)" >/tmp/ping 2>/tmp/log || fail "the start: $(cat /tmp/log /tmp/ping)"
grep -q ' 3 received, 0% packet loss' /tmp/ping || fail "not all pings were answered: $(cat /tmp/ping /tmp/log)"
eval "$(listing 3)" >/tmp/look || fail "the look: $(cat /tmp/look)"
listing 4 | shape >/tmp/expected
shape </tmp/look | head -n "$(wc -l </tmp/expected)" | diff -u /tmp/expected - || fail "show answers other lines than the README has"
grep -q 'web0' <(sed -n '/^  vPort/,$p' /tmp/look) || fail "no MACs: $(cat /tmp/look)"
eval "$(listing 5)"
wait
[ -z "$(ip netns list)" ] || fail "a network namespace was left behind"
echo "tour: all checks passed"
