#!/bin/bash
# Prints the directory of an unpacked Debian kernel (vmlinux, lib/modules/*) and its initramfs.cpio, for boot.sh. The first
# call downloads and unpacks the package of the version that linux-headers-amd64 has, so that modules can be built for it;
# later calls find it there. The kernel is not installed.
#
#   tests/vm/kernel.sh DIRECTORY
#
# EOIB_KERNEL_CACHE names a directory that keeps the package for all build trees; without it, each tree downloads it.
set -euo pipefail

# The modules that the guest needs for its root and its output: virtio on PCI, a 9p share, an overlay, a virtio port.
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

# fetch_package VERSION DIRECTORY: downloads the .deb if needed, and prints its path.
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

# number_at WIDTH OFFSET FILE: the little-endian number of WIDTH bytes at OFFSET.
number_at() { od -A n -t "u$1" -j "$2" -N "$1" "$3" | tr -d ' '; }

# extract_kernel VMLINUZ OUTPUT: decompresses the kernel, because an emulated processor would take seconds for it.
# Documentation/arch/x86/boot.rst gives its place in the file (setup_sects, payload_offset, payload_length; the last 4 bytes of
# the payload are the decompressed length).
extract_kernel() {
  local setup offset length
  setup=$(number_at 1 $((0x1f1)) "$1")
  offset=$((($(number_at 4 $((0x248)) "$1")) + (setup + 1) * 512))
  length=$(($(number_at 4 $((0x24c)) "$1") - 4))
  dd if="$1" iflag=skip_bytes,count_bytes skip="$offset" count="$length" bs=1M status=none | xz -dc >"$2" || die "cannot extract the kernel from $1"
}

# make_initramfs VERSION ROOT OUTPUT: packs busybox, MODULES with their dependencies, and initramfs_init.sh as /init.
make_initramfs() {
  local version=$1 root=$2 output=$3 tree module path
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,modules,proc,sys,dev,lower,rw,root}
  cp /bin/busybox "$tree/bin/busybox"
  cp "$(dirname "${BASH_SOURCE[0]}")/initramfs_init.sh" "$tree/init"
  chmod +x "$tree/init"
  # In the order in which they must be loaded.
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
