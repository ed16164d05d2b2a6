#!/bin/bash
# Builds the test-only kernel module simib.
#
#   tests/vm/build_module.sh OUTDIR [KERNEL_RELEASE]
#
# Writes OUTDIR/simib.ko. Links the sources into OUTDIR, so that the source tree stays clean. The default KERNEL_RELEASE is the
# newest kernel whose headers are installed (Debian: linux-headers-amd64).
set -euo pipefail

sources=$(cd "$(dirname "$0")/simib" && pwd)
[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
release=${2:-$(cd /lib/modules && find . -mindepth 2 -maxdepth 2 -name build | cut -d/ -f2 | sort -V | tail -n 1)}
headers=/lib/modules/$release/build
if [ -z "$release" ] || [ ! -d "$headers" ]; then
  echo "no headers of kernel '$release' in $headers: apt-get install linux-headers-amd64" >&2
  exit 1
fi
# A link to a deleted source would keep its old object.
find "$out" -maxdepth 1 -type l -delete
ln -s "$sources"/Kbuild "$sources"/*.[ch] "$out"/
# BTF would need vmlinux, which the headers do not contain; drop make's line about it, which looks like a warning.
make -s -C "$headers" M="$out" W=1 KBUILD_MODPOST_WARN= modules 2> >(grep -v 'due to unavailability of vmlinux' >&2)
