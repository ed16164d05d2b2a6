#!/bin/bash
# The first process of a test VM on its final root: mounts what is missing, loads modules, runs the program of boot.sh, and
# powers the machine off. boot.sh names a script with the commands on the kernel's command line: commands=PATH.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t devpts none /dev/pts 2>/dev/null || { mkdir -p /dev/pts && mount -t devpts none /dev/pts; }
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
mount -t tmpfs -o mode=0755 none /run
mount -t tmpfs -o mode=1777 none /var/tmp
mount -t debugfs none /sys/kernel/debug
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
ln -sf /proc/self/fd /dev/fd
hostname eoib-vm
ip link set lo up
# The neighbour table is shared by all hosts, and some tests scan ten thousand addresses.
for family in ipv4 ipv6; do echo 65536 | tee /proc/sys/net/$family/neigh/default/gc_thresh[123] >/dev/null; done
# The kernel rewrites its receive path when the first socket asks for timestamps, as each ping does, and QEMU's emulation may run
# the code from before for ever ("soft lockup" in netif_receive_skb_list_internal). A socket that stays keeps the path as it is.
perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0) && setsockopt(S, SOL_SOCKET, Socket::SO_TIMESTAMP, 1) or die; sleep' &
# Otherwise every libibverbs program would load all drivers. Only rdma_rxe and simib exist here; simib uses libipathverbs.
for driver in /etc/libibverbs.d/*.driver; do
  case ${driver##*/} in
    rxe.driver | ipathverbs.driver) ;;
    *) rm -f "$driver" ;;
  esac
done

# The virtio ports to the host, by the names that boot.sh gave them.
port() {
  local name
  for name in /sys/class/virtio-ports/*/name; do
    if [ "$(cat "$name")" = "$1" ]; then
      echo "/dev/$(basename "$(dirname "$name")")"
      return
    fi
  done
}
commands=$(sed -n 's/.* commands=\([^ ]*\).*/\1/p' /proc/cmdline)
exec 3>"$(port eoib.status)"
echo booted >&3

(
  exec >"$(port eoib.output)" 2>&1 </dev/null
  . "$commands"
) &
wait $!
echo $? >&3
exec 3>&-
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
