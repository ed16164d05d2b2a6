#!/bin/bash
# Boots systemd on a root directory, in namespaces of its own: mounts, processes, network, host name, IPC and control groups.
#
#   tests/packages/boot.sh ROOT
#
# Ends when the machine is powered off; the machine ends with this script. As root.
set -euo pipefail

# In the new namespaces: gives the root what a machine has, and makes it this namespace's.
if [ "${1:-}" = --inside ]; then
  root=$2
  mount --make-rprivate /
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  for directory in run tmp dev; do mount -t tmpfs -o mode=0755 tmpfs "$root/$directory"; done
  chmod 1777 "$root/tmp"
  mkdir "$root"/dev/{net,pts,shm}
  for device in null zero full random urandom tty net/tun; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cd "$root"
  pivot_root . mnt
  umount -l /mnt
  exec env -i container=eoib-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=journal --show-status=no
fi

exec unshare --mount --net --uts --ipc --cgroup --pid --fork --kill-child "$0" --inside "$(realpath "$1")" </dev/null
