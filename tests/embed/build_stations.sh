#!/bin/sh
# Installs libeoib and its development files below OUTPUT/prefix, and compiles echo_station.c with them: OUTPUT/echo_station_shared and
# OUTPUT/echo_station_static.
#
#   build_stations.sh BUILD_DIRECTORY OUTPUT COMPILER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1 output=$2 compiler=$3
prefix=$output/prefix
rm -rf "$prefix"
for component in runtime development; do
  cmake --install "$build" --component "$component" --prefix "$prefix" >/dev/null
done
libraries=$(dirname "$(find "$prefix" -name libeoib.a)")
export PKG_CONFIG_PATH="$libraries/pkgconfig"

# flags ARGUMENT...: those of pkg-config for a program with libeoib.
flags() { pkg-config --cflags --libs "$@" eoib; }

# compile NAME FLAGS...
compile() {
  name=$1
  shift
  "$compiler" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -o "$output/$name" "$here/echo_station.c" "$@"
}

# shellcheck disable=SC2046
compile echo_station_shared $(flags) "-Wl,-rpath,$libraries"
# As control/embed/README.md says. With both libraries in a directory, a linker takes the shared one for -leoib.
# shellcheck disable=SC2046
compile echo_station_static $(flags --static | sed 's/-leoib/-l:libeoib.a/')
