#!/bin/bash
# Shows the switch on one machine, without InfiniBand: three hosts (network namespaces) on a software subnet, each with an
# agent. One VES has two VLANs; a second VES is in another partition. The script installs packages, builds, runs pings and a
# TCP test, prints the FDBs, and tears everything down.
#
#   deploy/quickstart.sh          run, then tear down
#   deploy/quickstart.sh --keep   run, leave the hosts up, and print commands to try
#   deploy/quickstart.sh --down   tear down what --keep left
set -euo pipefail

ROOT=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${EOIB_QUICKSTART_BUILD:-$ROOT/build}
BIN=$BUILD/bin
NAME=${EOIB_QUICKSTART_NAME:-eoib}  # prefix of namespaces and run directory; with another name a second instance can run
RUN=/run/$NAME-quickstart
HOSTS=(h1 h2 h3)
SECONDS_OF_TCP=${EOIB_QUICKSTART_SECONDS:-4}

title() { printf '\n== %s\n' "$*"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }
need_root() { [ "$(id -u)" = 0 ] || die "needs root, for network namespaces and TAP interfaces: sudo $0 $*"; }
in_host() { local host=$1; shift; ip netns exec "$NAME-$host" "$@"; }
ctl() { local host=$1; shift; "$BIN/eoibctl" -t "$RUN/$host/eoibd.ctl" "$@"; }

# wait_for DESCRIPTION COMMAND...: retries the command 20 times a second, for at most ten seconds.
wait_for() {
  local what=$1 try
  shift
  for try in $(seq 200); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  die "$what did not succeed within ten seconds; see $RUN/*.log"
}

down() {
  local pid_file host
  for pid_file in "$RUN"/*.pid; do
    [ -e "$pid_file" ] || continue
    kill "$(cat "$pid_file")" 2>/dev/null || true
  done
  for pid_file in "$RUN"/*.pid; do
    [ -e "$pid_file" ] || continue
    timeout 5 tail --pid="$(cat "$pid_file")" -f /dev/null 2>/dev/null || kill -9 "$(cat "$pid_file")" 2>/dev/null || true
  done
  for host in "${HOSTS[@]}"; do ip netns delete "$NAME-$host" 2>/dev/null || true; done
  rm -rf "$RUN"
}

start() {  # start NAME COMMAND...: runs it in the background, with a log and a PID file
  local name=$1
  shift
  "$@" >"$RUN/$name.log" 2>&1 </dev/null &
  echo $! >"$RUN/$name.pid"
}

write_configuration() {
  cat >"$RUN/partitions.toml" <<'TOML'
# The partitions of the software subnet: what opensm's partitions.conf is on a real one.
[[partition]]
pkey = 0x8001
full = ["ALL"]

[[partition]]
pkey = 0x8002
full = ["ALL"]
TOML
  local host
  for host in "${HOSTS[@]}"; do
    mkdir -p "$RUN/$host"
    cat >"$RUN/$host.toml" <<'TOML'
[[ves]]
name = "blue"
pkey = 0x8001
vlans = [10, 20]

[[ves]]
name = "red"
pkey = 0x8002

[[vport]]
name = "blue10"
ves = "blue"
access_vlan = 10

[[vport]]
name = "blue20"
ves = "blue"
access_vlan = 20

[[vport]]
name = "red0"
ves = "red"
access_vlan = 10
TOML
  done
}

start_host() {
  local host=$1 number=${1#h}
  ip netns add "$NAME-$host"
  in_host "$host" ip link set lo up
  # Answer ARP only on the interface that has the address, as three separate machines would.
  in_host "$host" sysctl -qw net.ipv4.conf.all.arp_ignore=1
  # With a host name of its own, as a separate machine would have.
  start "eoibd-$host" ip netns exec "$NAME-$host" unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"' "$host" \
    "$BIN/eoibd" --hca="soft:$host" --fabric="$RUN/fabricd.sock" \
    --rundir="$RUN/$host" --statedir="$RUN/$host/state" --config="$RUN/$host.toml"
  wait_for "joining the flood groups on $host" joined "$host"
  in_host "$host" ip address add "10.10.0.$number/24" dev blue10
  in_host "$host" ip address add "10.20.0.$number/24" dev blue20
  in_host "$host" ip address add "10.30.0.$number/24" dev red0
}

joined() { local text; text=$(ctl "$1" show) && grep -q 'joined, MLID' <<<"$text" && ! grep -q 'not joined' <<<"$text"; }

up() {
  mkdir -p "$RUN"
  trap down EXIT
  write_configuration
  start fabricd "$BIN/eoib-fabricd" --rundir="$RUN" --statedir="$RUN" --config="$RUN/partitions.toml"
  wait_for "the start of eoib-fabricd" "$BIN/eoibctl" -t "$RUN/fabricd.ctl" show
  local host
  for host in "${HOSTS[@]}"; do start_host "$host"; done
}

show_pings() {
  title "Ping: VLAN 10 and VLAN 20 of VES blue, and VES red"
  local target pid failed= targets=(10.10.0.2 10.10.0.3 10.20.0.2 10.30.0.3) pids=()
  # In parallel, because each takes seconds. Not faster than once a second: ping waits one interval for its last reply.
  for target in "${targets[@]}"; do
    in_host h1 ping -c 3 -W 2 "$target" >"$RUN/ping-$target.log" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  for target in "${targets[@]}"; do
    sed -n "s/^rtt/  $target: rtt/p; s/.* \([0-9]* received.*\)/  $target: \1/p" "$RUN/ping-$target.log"
  done
  [ -z "$failed" ] || die "not all pings were answered"
}

show_isolation() {
  title "Isolation: h2 gets an IP address of VES blue on its interface in VES red; both are VLAN 10"
  in_host h2 ip address add 10.10.0.102/24 dev red0
  in_host h1 ping -c 1 -W 2 10.30.0.2 >/dev/null || die "h1 does not reach h2 in VES red"
  if in_host h1 ping -I blue10 -c 2 -i 0.2 -W 1 10.10.0.102 >/dev/null 2>&1; then
    die "h1 in P_Key 0x8001 reached h2 in P_Key 0x8002: partitions are not isolated"
  fi
  in_host h2 ip address del 10.10.0.102/24 dev red0
  echo "  h1 (P_Key 0x8001) does not reach it in P_Key 0x8002, as expected"
}

tcp_gigabits() {  # tcp_gigabits ADDRESS: prints the Gb/s from h1 to the iperf3 server on h2
  in_host h1 iperf3 -C cubic -t "$SECONDS_OF_TCP" -O 1 -f g -c "$1" | awk '/receiver/ {for (i = 1; i < NF; i++) if ($(i+1) ~ /^Gbits/) print $i}'
}

show_tcp() {
  title "TCP from h1 to h2, one stream, inner MTU 4070"
  # The underlay of the kernel's VXLAN: a veth pair whose MTU has room for VXLAN's 50 bytes.
  ip link add eoib-u1 mtu 4120 netns "$NAME-h1" type veth peer name eoib-u2 mtu 4120 netns "$NAME-h2"
  local host number
  for host in h1 h2; do
    number=${host#h}
    in_host "$host" ip address add "192.168.77.$number/24" dev "eoib-u$number"
    in_host "$host" ip link set "eoib-u$number" up
    in_host "$host" ip link add vxlan7 type vxlan id 7 dev "eoib-u$number" remote "192.168.77.$((3 - number))" dstport 4789
    in_host "$host" ip address add "10.77.0.$number/24" dev vxlan7
    in_host "$host" ip link set vxlan7 mtu 4070 up
  done
  start iperf3 ip netns exec "$NAME-h2" iperf3 -s
  wait_for "the start of iperf3" in_host h1 iperf3 -n 1K -c 10.10.0.2
  printf '  eoib          %s Gb/s\n' "$(tcp_gigabits 10.10.0.2)"
  printf '  kernel VXLAN  %s Gb/s\n' "$(tcp_gigabits 10.77.0.2)"
}

show_fdbs() {
  local host
  for host in "${HOSTS[@]}"; do
    title "FDB of $host"
    ctl "$host" fdb show
  done
}

# The command that tears this instance down.
DOWN="$0 --down"
if [ "$NAME" != eoib ]; then DOWN="EOIB_QUICKSTART_NAME=$NAME $DOWN"; fi

print_commands() {
  title "The hosts are up. Commands to try:"
  cat <<TEXT
  ip netns exec $NAME-h1 ping 10.10.0.3                        from host h1, VLAN 10
  $BIN/eoibctl -t $RUN/h1/eoibd.ctl show                      also: fdb show, stats, drops, help
  ovs-appctl -t $RUN/h1/eoibd.ctl fdb/show                    the same socket (package openvswitch-common)
  $BIN/eoibctl -t $RUN/h1/eoibd.ctl capture/start /tmp/h1.erf then: tshark -r /tmp/h1.erf (package tshark)
  $BIN/eoibctl -t $RUN/fabricd.ctl show                       the subnet: ports, LIDs, P_Keys
  $BIN/eoibctl -t $RUN/fabricd.ctl link h2 down               pull h2's cable
  $DOWN
TEXT
}

KEEP=false
case "${1:-}" in
  "") ;;
  --keep) KEEP=true ;;
  --down) need_root "$@"; down; exit 0 ;;
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) die "unknown argument \"$1\"; it is --keep, --down, --help or nothing" ;;
esac
need_root "$@"
[ ! -e "$RUN" ] || die "$RUN exists: a quickstart is running already; \"$DOWN\" ends it"
[ -c /dev/net/tun ] || die "/dev/net/tun is missing: load the tun module (modprobe tun) or pass the device into this container"

. "$ROOT/deploy/packages.sh"
title "Packages and build"
install_packages build
install_packages run
if [ -e "$BUILD/CMakeCache.txt" ] && ! grep -qx 'EOIB_UNITY:BOOL=ON' "$BUILD/CMakeCache.txt"; then
  # Not by the preset but by hand (cmake -B build): its generator, options and prefix stay as they are.
  cmake --build "$BUILD" --parallel "$(nproc)" --target programs eoib-verbs eoib-umad
else
  build_tree release "$BUILD" programs eoib-verbs eoib-umad
fi

up
show_pings
show_isolation
show_tcp
show_fdbs
if $KEEP; then
  trap - EXIT
  print_commands
else
  title "Done; tearing down"
fi
