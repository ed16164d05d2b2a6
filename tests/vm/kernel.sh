#!/bin/bash
# Prints the directory of an unpacked Debian kernel (vmlinux, lib/modules/*) and of the image that boots it
# (initramfs.cpio), for boot.sh. The first call downloads and unpacks the package, which linux-headers-amd64 decides about, so that
# modules can be built against it; later ones find it. It is not installed: the machine keeps its own kernel.
#
#   tests/vm/kernel.sh DIRECTORY
#
# EOIB_KERNEL_CACHE names a directory where the package is kept between build trees; without, it is downloaded for each of them.
set -euo pipefail

# What the guest needs to reach its root: a PCI device, a 9p share over virtio, an overlay, and the port its output goes to.
MODULES="virtio_pci virtio_console 9pnet_virtio 9p overlay"

die() {
  echo "kernel.sh: $*" >&2
  exit 1
}

# The version of the installed headers, as "6.1.0-56-amd64".
headers_version() {
  local version
  version=$(dpkg-query -W -f '${Depends}' linux-headers-amd64 2>/dev/null | sed -n 's/.*linux-headers-\([^ ,]*\).*/\1/p')
  [ -n "$version" ] || die "the package linux-headers-amd64 is missing: apt-get install linux-headers-amd64"
  echo "$version"
}

# fetch_package VERSION DIRECTORY: the .deb's path.
fetch_package() {
  local version=$1 cache=${EOIB_KERNEL_CACHE:-$2} found
  mkdir -p "$cache"
  found=$(find "$cache" -maxdepth 1 -name "linux-image-${version}_*.deb" | head -n 1)
  if [ -z "$found" ]; then
    (cd "$cache" && apt-get -o APT::Sandbox::User=root download -qq "linux-image-$version" >&2) || die "cannot download linux-image-$version"
    found=$(find "$cache" -maxdepth 1 -name "linux-image-${version}_*.deb" | head -n 1)
  fi
  echo "$found"
}

# The number of WIDTH bytes at OFFSET of FILE, little-endian.
number_at() { od -A n -t "u$1" -j "$2" -N "$1" "$3" | tr -d ' '; }

# extract_kernel VMLINUZ OUTPUT: the kernel itself, since an emulated processor would take seconds to decompress it. Where it
# is in the file says Documentation/arch/x86/boot.rst (setup_sects, payload_offset, payload_length; 4 bytes behind it are its
# length).
extract_kernel() {
  local setup offset length
  setup=$(number_at 1 $((0x1f1)) "$1")
  offset=$((($(number_at 4 $((0x248)) "$1")) + (setup + 1) * 512))
  length=$(($(number_at 4 $((0x24c)) "$1") - 4))
  dd if="$1" iflag=skip_bytes,count_bytes skip="$offset" count="$length" bs=1M status=none | xz -dc >"$2" || die "cannot extract the kernel from $1"
}

# make_initramfs VERSION ROOT OUTPUT: busybox, MODULES and what they need, and initramfs_init.sh as /init.
make_initramfs() {
  local version=$1 root=$2 output=$3 tree module path
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,modules,proc,sys,dev,lower,rw,root}
  cp /bin/busybox "$tree/bin/busybox"
  cp "$(dirname "${BASH_SOURCE[0]}")/initramfs_init.sh" "$tree/init"
  chmod +x "$tree/init"
  # In the order of loading.
  for module in $MODULES; do
    modprobe -d "$root" -S "$version" --show-depends "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$tree/modules/paths"
  while read -r path; do
    cp "$path" "$tree/modules/"
    basename "$path"
  done <"$tree/modules/paths" >"$tree/modules/order"
  rm "$tree/modules/paths"
  (cd "$tree" && find . | cpio --quiet -o -H newc) >"$output"
  rm -rf "$tree"
}

[ $# = 1 ] || die "usage: tests/vm/kernel.sh DIRECTORY"
mkdir -p "$1"
directory=$(cd "$1" && pwd)
version=$(headers_version)
root=$directory/$version
exec 9>"$directory/lock"  # two tests may start at once
flock 9
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  package=$(fetch_package "$version" "$directory")
  dpkg -x "$package" "$root"
  depmod -b "$root" "$version"
  extract_kernel "$root/boot/vmlinuz-$version" "$root/vmlinux"
  [ -n "${EOIB_KERNEL_CACHE:-}" ] || rm -f "$package"
  touch "$root/complete"
fi
image=$root/initramfs.cpio
if [ ! -e "$image" ] || [ "$(dirname "${BASH_SOURCE[0]}")/initramfs_init.sh" -nt "$image" ] || [ "${BASH_SOURCE[0]}" -nt "$image" ]; then
  make_initramfs "$version" "$root" "$image.new"
  mv "$image.new" "$image"
fi
echo "$root"
