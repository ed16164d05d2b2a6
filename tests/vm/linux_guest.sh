#!/bin/bash
# Prints the directory of a Linux guest of the switch: Debian's kernel (vmlinux) and an initramfs (guest.cpio) with busybox and
# the drivers of virtual interfaces, in which linux_guest_init.sh is the first process. It needs no disk, so it can migrate.
#
#   tests/vm/linux_guest.sh DIRECTORY      DIRECTORY and EOIB_KERNEL_CACHE as for kernel.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
MODULES="virtio_pci virtio_net af_packet 8021q macvlan bridge"

root=$("$here/kernel.sh" "$1")
version=$(basename "$root")
image=$root/guest.cpio
exec 9>"$1/lock"  # two tests may start at once
flock 9
if [ -e "$image" ] && [ "$image" -nt "$0" ] && [ "$image" -nt "$here/linux_guest_init.sh" ]; then
  echo "$root"
  exit
fi
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,modules,proc,sys,dev,tmp}
cp /bin/busybox "$tree/bin/busybox"
cp "$here/linux_guest_init.sh" "$tree/init"
chmod +x "$tree/init"
# In the order in which they must be loaded. Those that are built in have no line.
for module in $MODULES; do
  modprobe -d "$root" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$tree/paths"
while read -r path; do
  cp "$path" "$tree/modules/"
  basename "$path"
done <"$tree/paths" >"$tree/modules/order"
rm "$tree/paths"
(cd "$tree" && find . | cpio --quiet -o -H newc) >"$image.new"
mv "$image.new" "$image"
echo "$root"
