#!/bin/busybox sh
# The first process of a test VM, in its initramfs: loads the modules for the root, mounts the host's file system read-only
# over 9p, puts a temporary overlay on it, and continues there with guest.sh.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
exec </dev/console >/dev/console 2>&1
while read -r module; do insmod "/modules/$module"; done </modules/order

# Read guest=PATH and kernel=PATH from the kernel's command line.
for word in $(cat /proc/cmdline); do
  case $word in
    guest=*) guest=${word#guest=} ;;
    kernel=*) kernel=${word#kernel=} ;;
  esac
done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose machine /lower || echo "no root over 9p"
mount -t tmpfs -o mode=0755,size=60% none /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work none /root || echo "no overlay"
version=$(uname -r)
mkdir -p "/root/usr/lib/modules/$version"
mount -o bind "/root$kernel/lib/modules/$version" "/root/usr/lib/modules/$version"
for directory in proc sys dev; do mount -o move "/$directory" "/root/$directory"; done
exec switch_root /root /bin/bash "$guest"
