#!/bin/bash
# Builds the test-only kernel module simib.
#
#   tests/vm/build_module.sh OUTDIR [KERNEL_RELEASE]
#
# OUTDIR/simib.ko is the result; sources are linked there, so that the source tree stays clean. Without KERNEL_RELEASE, for the
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
# Links to sources that are gone would keep an old object alive.
find "$out" -maxdepth 1 -type l -delete
ln -s "$sources"/Kbuild "$sources"/*.[ch] "$out"/
# The module's BTF needs vmlinux, which headers do not have; make says so in a line that looks like a warning.
make -s -C "$headers" M="$out" W=1 KBUILD_MODPOST_WARN= modules 2> >(grep -v 'due to unavailability of vmlinux' >&2)
