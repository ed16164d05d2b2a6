#!/bin/bash
# Stands in for ip, ethtool and ovs-vsctl, under their names, in the traffic tests of Open vSwitch. Where a test makes a pair of veths, of
# which one goes into a namespace and the other, "ovs-NAME", into a bridge, it makes the TAP of an eoibd there, and a port of type eoib.
# Each pair is a VES of its own. All other commands go to the program itself.
#
# EOIB_PAIRS is a directory for the pairs, EOIB_BIN has the programs, and eoib-fabricd listens on $EOIB_PAIRS/fabricd.sock.
set -euo pipefail
name=$(basename "$0")
# The programs themselves, also for what they run: that is in a namespace, or has nothing to do with pairs.
PATH=/usr/sbin:/usr/bin:/sbin:/bin

is_pair() { [ -d "$EOIB_PAIRS/$1" ]; }

# wait_for COMMAND...: until it succeeds.
wait_for() {
  local deadline=$((SECONDS + 60))
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $deadline ]; then
      echo "$name: in vain for a minute: $*" >&2
      return 1
    fi
    sleep 0.05
  done
}

# add_pair PORT
add_pair() {
  local directory=$EOIB_PAIRS/$1 number
  number=$(($(cat "$EOIB_PAIRS/count" 2>/dev/null || echo 0) + 1))
  echo $number >"$EOIB_PAIRS/count"
  mkdir "$directory"
  # The partitions of the subnet, which pairs use in turn.
  printf '0x80%02x' $((number % 32 + 1)) >"$directory/pkey"
  cat >"$directory/eoibd.toml" <<END
[[ves]]
name = "$1"
pkey = $(cat "$directory/pkey")
[[vport]]
name = "$1"
ves = "$1"
mode = "trunk"
mtu = 1500
pin_mac = false
up = false
END
}

# start_agent PORT NAMESPACE
start_agent() {
  local directory=$EOIB_PAIRS/$1
  # Descriptors of the test suite must not stay open.
  ip netns exec "$2" "$EOIB_BIN/eoibd" --name="$1" --hca="soft:$1" --fabric="$EOIB_PAIRS/fabricd.sock" --config="$directory/eoibd.toml" \
    --rundir="$EOIB_PAIRS" --statedir="$directory" </dev/null >"$directory/log" 2>&1 5>&- &
  echo $! >"$directory/pid"
  wait_for ip -n "$2" link show "$1"
}

stop_agent() {
  local pid
  pid=$(cat "$EOIB_PAIRS/$1/pid" 2>/dev/null || true)
  if [ -n "$pid" ]; then
    kill "$pid"
    wait_for sh -c "! kill -0 $pid"
  fi
  rm -rf "${EOIB_PAIRS:?}/$1"
}

agent_has_peer() { "$EOIB_BIN/eoibctl" -t "$EOIB_PAIRS/eoibd.$1.ctl" peers | grep -q '1 vPorts'; }
bridge_has_peer() { ovs-appctl eoib/peers "$1" | grep -q '1 vPorts'; }

# add_port PORT WORDS...: of ovs-vsctl. A frame that is sent at once must not be lost.
add_port() {
  local port=$1
  shift
  ovs-vsctl "$@" -- set Interface "ovs-$port" type=eoib "options:hca=soft:ovs-$port" "options:fabric=$EOIB_PAIRS/fabricd.sock" \
    "options:ves=$port" "options:pkey=$(cat "$EOIB_PAIRS/$port/pkey")" mtu_request=1500
  wait_for agent_has_peer "$port"
  wait_for bridge_has_peer "$port"
}

case "$name $*" in
  "ip link add "*" type veth peer name ovs-"*) if [ "$8" = "ovs-$3" ]; then add_pair "$3"; exit; fi ;;
  "ip link set "*" netns "*) if is_pair "$3"; then start_agent "$3" "$5"; exit; fi ;;
  "ip link set dev ovs-"*" up") if is_pair "${4#ovs-}"; then exit; fi ;;
  "ip link del ovs-"*) if is_pair "${3#ovs-}"; then stop_agent "${3#ovs-}"; exit; fi ;;
  "ethtool -K "*) if is_pair "$2"; then exit; fi ;;
  "ovs-vsctl add-port "*) if is_pair "${3#ovs-}"; then add_port "${3#ovs-}" "$@"; exit; fi ;;
esac
exec "$name" "$@"
