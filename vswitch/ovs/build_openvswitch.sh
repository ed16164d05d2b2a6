#!/bin/sh
# Builds the libraries of Open vSwitch, unpatched, from Debian's package openvswitch-source:
#
#   build_openvswitch.sh TARBALL DIRECTORY [COMPILER...]
#
# Afterwards DIRECTORY/src has its source, DIRECTORY/build its objects, DIRECTORY/libraries the libraries that these need, as arguments
# of the linker, and DIRECTORY/log what the build printed.
set -eu
tarball=$1 directory=$2
shift 2
rm -rf "$directory/src" "$directory/build"
mkdir -p "$directory/src" "$directory/build"
build() {
  tar -xzf "$tarball" -C "$directory/src" --strip-components=1
  cd "$directory/build"
  ../src/configure --disable-shared --disable-dependency-tracking --prefix=/usr --localstatedir=/var --sysconfdir=/etc CC="${*:-cc}" CFLAGS="-g1 -O2 -fPIC"
  # Automake makes generated headers first only for its target "all", which has much more than we need.
  printf 'generated: $(BUILT_SOURCES)\n' >generated.mk  # not by a pipe: make leaves its copy of one in /tmp
  make -s -j"$(nproc)" -f Makefile -f generated.mk generated
  make -s -j"$(nproc)" vswitchd/ovs-vswitchd
  # Relative names are Open vSwitch's own libraries.
  sed -n "s/^dependency_libs='\(.*\)'/\1/p" lib/libopenvswitch.la | tr ' ' '\n' | grep '^-l' | sort -u >../libraries
}
if ! build "$@" >"$directory/log" 2>&1; then
  tail -n 30 "$directory/log" >&2
  echo "build Open vSwitch from $tarball: failed; all of the output is in $directory/log" >&2
  exit 1
fi
