#!/bin/bash
# The Debian packages: makes them, has lintian look at them, and installs, starts, upgrades, removes and purges them on a clean
# Debian with systemd as its first process.
#
#   tests/packages/packages_test.sh BUILD_DIRECTORY
#
# The agents there use the software subnet, so no InfiniBand is needed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d)
machine=

# The init of the machine, as this machine sees it: boot.sh's only child.
init_of() { pgrep --parent "$1" || true; }

clean_up() {
  local init
  if [ -n "$machine" ]; then
    init=$(init_of "$machine")
    if [ -n "$init" ]; then kill -KILL "$init" 2>/dev/null || true; fi
    wait "$machine" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*" >&2
  if [ -n "$machine" ]; then
    on systemctl status --no-pager eoibd eoib-fabricd eoib-gateway eoib-ipoib@ib0 >&2 || true
    on journalctl --no-pager -n 60 >&2 || true
  fi
  exit 1
}

title() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }

# on COMMAND...: runs it on the machine.
on() { nsenter -t "$init" -m -u -i -n -p -C -r -w -- "$@"; }

# expect WHAT COMMAND...: the command succeeds on the machine.
expect() {
  local what=$1
  shift
  on "$@" >"$work/output" 2>&1 || fail "$what: $* says: $(cat "$work/output")"
}

# eventually WHAT COMMAND...: the command succeeds on the machine before the deadline.
eventually() {
  local what=$1 end=$((SECONDS + 60))
  shift
  until on "$@" >"$work/output" 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "$what: for a minute, $* says: $(cat "$work/output")"
    sleep 0.1
  done
}

# property UNIT NAME: a property that systemd has of a unit.
property() { on systemctl show --property="$2" --value "$1"; }
status_is() { [[ $(property "$1" StatusText) == $2 ]]; }
# wait_for_status UNIT PATTERN
wait_for_status() {
  local end=$((SECONDS + 60))
  until status_is "$1" "$2"; do
    [ "$SECONDS" -lt "$end" ] || fail "the status line of $1 is \"$(property "$1" StatusText)\", not \"$2\""
    sleep 0.1
  done
}
# wait_for_restart UNIT PID: until the unit is active with another main process.
wait_for_restart() {
  local end=$((SECONDS + 60)) pid
  until pid=$(property "$1" MainPID) && [ "$pid" != "$2" ] && [ "$pid" != 0 ] && [ "$(property "$1" ActiveState)" = active ]; do
    [ "$SECONDS" -lt "$end" ] || fail "$1 was not started again: process $pid, $(property "$1" ActiveState)"
    sleep 0.1
  done
}

interface_index() { on cat /sys/class/net/web0/ifindex; }

# The same package with a higher version.
make_upgrade() {
  local tree=$work/tree version
  version=$(dpkg-deb -f "$1" Version)
  dpkg-deb -R "$1" "$tree"
  sed -i "/^Version:/s/$version/9.0.0-1/; /^Depends:/s/(= $version)/(= 9.0.0-1)/g" "$tree/DEBIAN/control"
  mkdir -p "$work/upgrade"
  dpkg-deb --root-owner-group -Znone -b "$tree" "$work/upgrade" >/dev/null
  rm -rf "$tree"
}

make_packages() {
  title "packages"
  "$source/deploy/package.sh" --built "$build" "$work/packages" >"$work/log" 2>&1 || fail "package.sh: $(cat "$work/log")"
  local package
  for package in "$work"/packages/*.deb; do make_upgrade "$package"; done
  title "lintian"
  TMPDIR=$work lintian --allow-root --fail-on error "$work"/packages/*.deb >"$work/log" 2>&1 || fail "lintian: $(cat "$work/log")"
}

# depends_on_dpdk PACKAGE.deb
depends_on_dpdk() { dpkg-deb -f "$1" Depends | grep -q librte-; }

# expect_files PACKAGE FILE...: the package has them.
expect_files() {
  local list file package=$1
  list=$(dpkg-deb -c "$work"/packages/"$package"_*.deb | awk '{ print $6 }')
  shift
  for file in "$@"; do grep -qx "\.$file" <<<"$list" || fail "$package has no $file, but: $list"; done
}

test_contents() {
  title "contents"
  local package libraries=/usr/lib/$(gcc -print-multiarch)
  expect_files eoib-agent /usr/share/doc/eoib-agent/README.md /usr/share/doc/eoib-agent/configuration.md
  expect_files eoib-vhost /usr/lib/eoib/libeoib-vhost.so /usr/share/doc/eoib-vhost/vm.md
  expect_files libeoib0 "$libraries/libeoib.so.0"
  expect_files libeoib-dev /usr/include/eoib.h "$libraries/libeoib.a" "$libraries/libeoib.so" "$libraries/pkgconfig/eoib.pc"
  expect_files eoib-openvswitch /usr/lib/eoib/eoib-vswitchd /usr/share/doc/eoib-openvswitch/README.md
  for package in "$work"/packages/*.deb; do
    case $(basename "$package") in
      eoib-vhost_*) depends_on_dpdk "$package" || fail "eoib-vhost does not depend on DPDK" ;;
      *) if depends_on_dpdk "$package"; then fail "$package depends on DPDK"; fi ;;
    esac
  done
}

boot() {
  title "boot"
  local tar
  tar=$("$here/root.sh" "$build/packages-root" "$work"/packages/*.deb) || fail "no root"
  mkdir "$work/root"
  tar -xf "$tar" -C "$work/root"
  mkdir "$work/root/packages"
  cp -r "$work/packages" "$work/upgrade" "$work/root/packages/"
  # The service of Open vSwitch loads the kernel's datapath, which these tests do not use.
  ln -s /bin/true "$work/root/usr/local/sbin/modprobe"
  "$here/boot.sh" "$work/root" >"$work/console" 2>&1 &
  machine=$!
  local end=$((SECONDS + 60))
  until init=$(init_of "$machine") && [ -n "$init" ] && on systemctl is-system-running --wait >"$work/output" 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "no boot: $(cat "$work/console" "$work/output")"
    sleep 0.1
  done
}

test_installation() {
  title "install"
  expect "install" sh -c 'dpkg -i /packages/packages/*.deb'
  local unit
  for unit in eoibd eoib-gateway eoib-fabricd; do
    [ "$(property $unit ActiveState)" = inactive ] || fail "$unit was started without a configuration"
    [ "$(property $unit UnitFileState)" = disabled ] || fail "$unit was enabled"
  done
  expect "the group of the read-only control sockets" getent group eoib
  expect "versions" sh -c 'eoibd --version | grep -F "$(dpkg-query -W -f "\${Version}" eoib-agent | cut -d- -f1)"'
  on sh -c 'grep -oH "]([^)]*)" /usr/share/doc/*eoib*/*.md' | find_dead_links >"$work/dead"
  [ ! -s "$work/dead" ] || fail "documents link to files that are not there: $(cat "$work/dead")"
  expect "the example is right" eoibd --check_config --config=/usr/share/doc/eoib-agent/examples/eoibd.toml
  if on eoibd --check_config >"$work/output" 2>&1; then fail "the file of the package says what nobody has decided"; fi
  grep -q "there is no VES" "$work/output" || fail "the file of the package: $(cat "$work/output")"
}

# "DOCUMENT:](TARGET)" lines on standard input: prints those whose file the machine does not have.
find_dead_links() {
  local document target
  while IFS=: read -r document target; do
    target=${target#](} target=${target%)} target=${target%%#*}
    case $target in "" | http:* | https:* | mailto:*) continue ;; /*) ;; *) target=${document%/*}/$target ;; esac
    on test -e "$target" </dev/null || echo "$document: $target"
  done
}

configure() {
  on sh -ec '
    printf "EOIB_HCA=soft:h1\n" >/etc/default/eoibd
    printf "[[ves]]\nname = \"blue\"\npkey = 0xffff\n[[vport]]\nname = \"web0\"\nves = \"blue\"\n" >/etc/eoib/eoibd.toml'
}

test_start() {
  title "start"
  expect "start the subnet" systemctl start eoib-fabricd
  expect "start the agent" systemctl enable --now eoibd
  [ "$(property eoibd ActiveState)" = active ] || fail "eoibd is not active"
  wait_for_status eoibd "forwarding on soft:h1; VESes joined: 1 of 1; vPorts: 1"
  wait_for_status eoib-fabricd "ports: 1"
  expect "the interface is there" ip link show web0
}

test_other_programs() {
  title "gateway, IPoIB interface"
  on sh -ec '
    printf "EOIB_HCA=soft:h2\n" >/etc/default/eoib-gateway
    printf "[[ves]]\nname = \"blue\"\npkey = 0xffff\n[[gateway]]\nname = \"g0\"\nves = \"blue\"\n" >/etc/eoib/eoib-gateway.toml
    printf "EOIB_HCA=soft:h3\nEOIB_IPOIB_OPTIONS=--address=10.9.0.1/24\n" >/etc/default/eoib-ipoib-ib0'
  expect "start the gateway" systemctl start eoib-gateway
  expect "start the interface" systemctl start eoib-ipoib@ib0
  wait_for_status eoib-gateway "translating on soft:h2; *"
  wait_for_status eoib-ipoib@ib0 "IPoIB on soft:h3, netdev ib0: up"
  eventually "the address" sh -c 'ip address show ib0 | grep -F "10.9.0.1/24"'
  expect "stop the gateway" systemctl stop eoib-gateway
}

test_reload() {
  title "reload"
  on sh -c 'printf "[[vport]]\nname = \"web1\"\nves = \"blue\"\n" >>/etc/eoib/eoibd.toml'
  expect "reload" systemctl reload eoibd
  wait_for_status eoibd "*; vPorts: 2"
  on sh -c 'echo nonsense >>/etc/eoib/eoibd.toml'
  if on systemctl reload eoibd 2>/dev/null; then fail "a reload of a broken configuration succeeded"; fi
  wait_for_status eoibd "*; vPorts: 2"
  on sed -i '/nonsense/d' /etc/eoib/eoibd.toml
  expect "a change" eoibctl vport del web1
  expect "a change" eoibctl vport add web2 ves=blue
  expect "it is saved" grep -q web2 /etc/eoib/eoibd.d/live.toml
  expect "a change" eoibctl vport del web2
  if on grep -q web1 /etc/eoib/eoibd.toml; then fail "a change is saved in the unit's sandbox"; fi
  expect "a capture" eoibctl capture start /var/tmp/x.erf
  expect "a capture" eoibctl capture stop
  expect "a capture" test -s /var/tmp/x.erf
}

# Killed, the agent comes back, and its interface was never away.
test_kill() {
  title "kill"
  local pid index
  pid=$(property eoibd MainPID) index=$(interface_index)
  on sh -c "kill -KILL $pid"
  [ "$(interface_index)" = "$index" ] || fail "the interface went with the process"
  wait_for_restart eoibd "$pid"
  wait_for_status eoibd "forwarding on *joined: 1 of 1*"
  [ "$(interface_index)" = "$index" ] || fail "the interface is another one"
}

# A process that hangs is replaced.
test_watchdog() {
  title "watchdog"
  local pid
  on mkdir -p /run/systemd/system/eoibd.service.d
  on sh -c 'printf "[Service]\nWatchdogSec=3\n" >/run/systemd/system/eoibd.service.d/watchdog.conf'
  expect "daemon-reload" systemctl daemon-reload
  expect "restart" systemctl restart eoibd
  pid=$(property eoibd MainPID)
  on sh -c "kill -STOP $pid"
  wait_for_restart eoibd "$pid"
  eventually "systemd names the reason" sh -c 'journalctl -u eoibd | grep -F "Watchdog timeout"'
  wait_for_status eoibd "forwarding on *joined: 1 of 1*"
  on rm /run/systemd/system/eoibd.service.d/watchdog.conf
  expect "daemon-reload" systemctl daemon-reload
  expect "restart" systemctl restart eoibd
}

# --realtime, and its drop-in of the documentation. Containers may not be able to raise the limit, so the agent gets the
# capability here, too.
test_realtime() {
  title "real-time priority"
  local directory=/etc/systemd/system/eoibd.service.d
  on sh -c 'echo EOIBD_OPTIONS=--realtime >>/etc/default/eoibd'
  expect "restart" systemctl restart eoibd
  eventually "the agent tells that it may not" sh -c 'journalctl -u eoibd | grep -F -e "--realtime: use a real-time priority"'
  expect "install the drop-in" install -D -m 644 /usr/share/doc/eoib-agent/examples/eoibd-realtime.conf $directory/realtime.conf
  on sh -c "printf '[Service]\nCapabilityBoundingSet=CAP_SYS_NICE\n' >$directory/capability.conf"
  expect "daemon-reload" systemctl daemon-reload
  expect "restart" systemctl restart eoibd
  wait_for_status eoibd "forwarding on *joined: 1 of 1*"
  [ "$(property eoibd LimitRTPRIO)" = 1 ] || fail "systemd does not take the drop-in"
  on sh -c 'journalctl _SYSTEMD_INVOCATION_ID="$(systemctl show --property=InvocationID --value eoibd)"' >"$work/log"
  grep -q "forwarding on" "$work/log" || fail "the journal of this start: $(cat "$work/log")"
  ! grep -F -e "--realtime: " "$work/log" || fail "the workers may not run ahead, though systemd was told to let them"
  on rm -r $directory
  on sed -i '/^EOIBD_OPTIONS=--realtime/d' /etc/default/eoibd
  expect "daemon-reload" systemctl daemon-reload
  expect "restart" systemctl restart eoibd
  wait_for_status eoibd "forwarding on *joined: 1 of 1*"
}

test_upgrade() {
  title "upgrade"
  local pid ipoib index vswitchd
  vswitchd=$(vswitchd_pid)
  pid=$(property eoibd MainPID) ipoib=$(property eoib-ipoib@ib0 MainPID) index=$(interface_index)
  on sh -c 'echo nonsense >>/etc/eoib/eoibd.toml'
  expect "upgrade with a mistake in the configuration" sh -c 'dpkg -i /packages/upgrade/*.deb'
  grep -q "^eoibd.service keeps running the former version" "$work/output" || fail "the upgrade says: $(cat "$work/output")"
  grep -q "eoibd.toml:[0-9]*: this is not TOML" "$work/output" || fail "the upgrade names no mistake: $(cat "$work/output")"
  [ "$(property eoibd MainPID)" = "$pid" ] || fail "the upgrade ended an agent that cannot start again"
  wait_for_status eoibd "forwarding on *joined: 1 of 1*"
  on sed -i '/nonsense/d' /etc/eoib/eoibd.toml
  expect "upgrade" sh -c 'dpkg -i /packages/upgrade/*.deb'
  [ "$(on dpkg-query -W -f '${Version}' eoib-agent)" = 9.0.0-1 ] || fail "the version after the upgrade"
  wait_for_restart eoibd "$pid"
  wait_for_status eoibd "forwarding on *joined: 1 of 1*"
  [ "$(interface_index)" = "$index" ] || fail "the upgrade replaced the interface"
  expect "the new agent knows the MACs of the old one" sh -c 'journalctl -u eoibd | grep -E "restored [0-9]+ of the [0-9]+ MACs that the last run saved"'
  wait_for_restart eoib-ipoib@ib0 "$ipoib"
  [ "$(property eoib-fabricd ActiveState)" = active ] || fail "the upgrade stopped eoib-fabricd"
  [ "$(property eoib-gateway ActiveState)" = inactive ] || fail "the upgrade started eoib-gateway"
  [ "$(property eoibd UnitFileState)" = enabled ] || fail "the upgrade disabled eoibd"
  test_upgraded_openvswitch "$vswitchd"
}

vswitchd_pid() { on cat /run/openvswitch/ovs-vswitchd.pid; }
# expect_vswitchd PROGRAM: the service runs it.
expect_vswitchd() {
  eventually "ovs-vswitchd is $1" sh -c 'test "$(readlink "/proc/$(cat /run/openvswitch/ovs-vswitchd.pid)/exe")" = '"$1"
}
# select_vswitchd ARGUMENT...: of update-alternatives.
select_vswitchd() {
  expect "select" update-alternatives "$@"
  expect "restart" systemctl restart ovs-vswitchd
}

distribution=/usr/lib/openvswitch-switch/ovs-vswitchd
ours=/usr/lib/eoib/eoib-vswitchd

test_openvswitch() {
  title "Open vSwitch"
  expect "start Open vSwitch" systemctl start openvswitch-switch
  expect_vswitchd $distribution
  select_vswitchd --set ovs-vswitchd $ours
  expect_vswitchd $ours
  expect "a bridge" ovs-vsctl --timeout=30 add-br br0 -- set bridge br0 datapath_type=netdev
  expect "a port" ovs-vsctl --timeout=30 add-port br0 eoib0 -- set Interface eoib0 type=eoib options:hca=soft:h4 options:ves=blue \
    options:pkey=0xffff
  eventually "the MAC of the agent's interface" sh -c 'ovs-appctl eoib/fdb-show | grep -F "$(cat /sys/class/net/web0/address)"'
  # The distribution's program has the same database, but not the port type.
  select_vswitchd --set ovs-vswitchd $distribution
  expect_vswitchd $distribution
  eventually "an error" sh -c 'ovs-vsctl get Interface eoib0 error | grep -F "could not open network device eoib0"'
  select_vswitchd --set ovs-vswitchd $ours
  eventually "the port is back" sh -c 'ovs-vsctl get Interface eoib0 link_state | grep -x up'
}

# An upgrade of eoib-openvswitch keeps the selected alternative, and the service runs. PID is the process before it.
test_upgraded_openvswitch() {
  expect_vswitchd $ours
  [ "$(vswitchd_pid)" != "$1" ] || fail "the upgrade did not restart ovs-vswitchd"
  eventually "the port is back" sh -c 'ovs-vsctl get Interface eoib0 link_state | grep -x up'
}

test_openvswitch_removal() {
  title "remove the alternative"
  expect "remove" dpkg --purge eoib-openvswitch
  expect_vswitchd $distribution
  expect "the bridge is there" ovs-vsctl --timeout=30 br-exists br0
  expect "delete the bridge" ovs-vsctl --timeout=30 del-br br0
}

# systemd-networkd with a .network for everything would have the host ask for addresses in a tenant's VLAN.
test_networkd() {
  title "networkd"
  on sh -c 'printf "[Match]\nName=*\n[Network]\nDHCP=yes\n" >/etc/systemd/network/99-all.network'
  expect "start networkd" systemctl start systemd-networkd
  eventually "networkd takes another interface" sh -c 'grep 99-all.network /run/systemd/netif/links/$(cat /sys/class/net/ib0/ifindex)'
  # 99-all.network fits it, too, so only our file can have networkd leave it alone.
  eventually "networkd leaves the interface alone" grep -x ADMIN_STATE=unmanaged "/run/systemd/netif/links/$(interface_index)"
  expect "stop networkd" systemctl stop systemd-networkd
}

test_removal() {
  title "remove and purge"
  expect "remove" dpkg --remove eoib-vhost libeoib-dev libeoib0 eoib-gateway eoib-tools eoib-agent
  local unit
  for unit in eoibd eoib-fabricd eoib-ipoib@ib0; do
    [ "$(property $unit ActiveState)" != active ] || fail "$unit runs after its removal"
  done
  expect "a removal leaves the interface" ip link show web0
  expect "a removal leaves the state" test -e /var/lib/eoib/vports.json
  expect "purge" dpkg --purge eoib-vhost libeoib-dev libeoib0 eoib-gateway eoib-tools eoib-agent
  if on ip link show web0 >/dev/null 2>&1; then fail "a purge leaves the interface"; fi
  # The group stays, as accounts of packages do. /etc/default has the operator's own files.
  on find / -xdev \( -path /etc/default -o -path /packages -o -path /proc -o -path /var/lib/dpkg -o -path /var/log \) -prune -o -name '*eoib*' -print >"$work/left"
  [ ! -s "$work/left" ] || fail "a purge leaves $(paste -sd' ' "$work/left")"
  expect "no unit has failed" sh -c '! systemctl --failed --no-legend --plain | grep .'
}

make_packages
test_contents
boot
test_installation
configure
test_start
test_other_programs
test_reload
test_kill
test_watchdog
test_realtime
test_openvswitch
test_networkd
test_upgrade
test_openvswitch_removal
test_removal
title "passed"
