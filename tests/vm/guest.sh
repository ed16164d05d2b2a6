#!/bin/bash
# The first process of a test VM once it has its root: mounts what is missing, loads modules, runs what boot.sh was asked to run, and
# switches the machine off. boot.sh left the orders in the file orders=PATH of the kernel's command line.
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
# Neighbours of all hosts together: some scan ten thousand addresses.
for family in ipv4 ipv6; do echo 65536 | tee /proc/sys/net/$family/neigh/default/gc_thresh[123] >/dev/null; done
# Every program of libibverbs would load the drivers of all adapters there are. Here are rdma_rxe and simib, which has libipathverbs.
for driver in /etc/libibverbs.d/*.driver; do
  case ${driver##*/} in
    rxe.driver | ipathverbs.driver) ;;
    *) rm -f "$driver" ;;
  esac
done

# Two ports to the machine outside, by the names that boot.sh gave them.
port() {
  local name
  for name in /sys/class/virtio-ports/*/name; do
    if [ "$(cat "$name")" = "$1" ]; then
      echo "/dev/$(basename "$(dirname "$name")")"
      return
    fi
  done
}
orders=$(sed -n 's/.*orders=\([^ ]*\).*/\1/p' /proc/cmdline)
exec 3>"$(port eoib.status)"
echo booted >&3

(
  exec >"$(port eoib.output)" 2>&1 </dev/null
  . "$orders"
) &
wait $!
echo $? >&3
exec 3>&-
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
