#!/bin/bash
# Makes the Debian packages: eoib-agent, eoib-gateway, eoib-vhost, eoib-tools, eoib-openvswitch, libeoib0 and libeoib-dev.
#
#   deploy/package.sh [--built BUILD_DIRECTORY] [OUTPUT_DIRECTORY]
#
# Builds the programs in build/, or takes those of a tree that is built already. Writes the packages to OUTPUT_DIRECTORY
# (build/packages). Installs missing Debian packages, as root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/packages.sh"

usage() {
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit "$1"
}

build=$here/../build built= output=
while [ $# -gt 0 ]; do
  case $1 in
    --built) build=$2 built=1; shift ;;
    -h | --help) usage 0 ;;
    -*) usage 2 >&2 ;;
    *) output=$1 ;;
  esac
  shift
done

install_packages build package
if [ -n "$built" ] && ! grep -qx 'CMAKE_INSTALL_PREFIX:PATH=/usr' "$build/CMakeCache.txt"; then
  echo "package.sh: $build is not built for /usr: configure it with -DCMAKE_INSTALL_PREFIX=/usr, or with the preset release" >&2
  exit 1
fi
if [ -z "$built" ]; then
  build_tree release "$build" eoibd eoibctl eoib-gateway eoib-ipoib eoib-fabricd eoib-verbs eoib-umad eoib-vhost \
    libeoib libeoib_archive eoib-vswitchd
fi
mkdir -p "${output:=$build/packages}"
build=$(cd "$build" && pwd) output=$(cd "$output" && pwd)
cd "$build"
if ! cpack -G DEB -B "$output" >"$output/cpack.log" 2>&1; then
  cat "$output/cpack.log" >&2
  exit 1
fi
rm -rf "$output/cpack.log" "$output/_CPack_Packages"
ls "$output"/*.deb
