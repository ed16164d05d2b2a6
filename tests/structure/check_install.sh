#!/bin/bash
# Checks what "cmake --install" does: all is below the prefix, the user's configuration stays, units start what was installed. Checks
# also that the tree can be configured without tests and options, with the user's own flags.
#
#   check_install.sh BUILD_DIRECTORY
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
configuration=$prefix/etc/eoib/eoibd.toml

fail() {
  echo "$*" >&2
  exit 1
}

# expect_line FILE LINE: the file has this line.
expect_line() { grep -qxF -e "$2" "$1" || fail "$1 has no line \"$2\", but:"$'\n'"$(cat "$1")"; }

install_tree() { cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || fail "cmake --install: $(cat "$work/log")"; }

install_tree
sed -n 's/^-- \(Installing\|Up-to-date\): //p' "$work/log" | grep -v "^$prefix/" && fail "the files above are not below $prefix"
[ "$(sed -n 's/^-- Installing: //p' "$work/log" | wc -l)" -ge 50 ] || fail "hardly anything was installed: $(cat "$work/log")"
sort "$build/install_manifest.txt" >"$work/noted"
find "$prefix" ! -type d | sort >"$work/found"
diff "$work/noted" "$work/found" || fail "install_manifest.txt lists other files than there are"

expect_line "$prefix/lib/systemd/system/eoibd.service" "EnvironmentFile=-$prefix/etc/default/eoibd"
expect_line "$prefix/lib/systemd/system/eoibd.service" "ExecReload=$prefix/bin/eoibctl reload"
grep -qF "ExecStart=$prefix/bin/eoibd --config=$configuration " "$prefix/lib/systemd/system/eoibd.service" || fail "eoibd.service"
! grep -rn "/usr/bin/eoib" "$prefix/lib/systemd" || fail "the units above start programs of /usr"
(umask 077 && cmake --install "$build" --component agent --prefix "$work/private" >"$work/log")
[ "$(stat -c %a "$work/private/lib/systemd/system/eoibd.service")" = 644 ] || fail "others may not read the unit"
# A prefix may be relative to the present directory, and have a space.
(cd "$work" && cmake --install "$build" --component agent --prefix "my prefix" >"$work/log")
grep -qF "ExecReload=$work/my prefix/bin/eoibctl reload" "$work/my prefix/lib/systemd/system/eoibd.service" || fail "a relative prefix"
"$prefix/bin/eoibd" --version >"$work/version" || fail "eoibd does not start"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name eoib.pc)")
include=$(realpath -m "$(pkg-config --variable=includedir eoib)")
[ "$include" = "$prefix/include" ] || fail "eoib.pc names the headers $include"

echo "# mine" >"$configuration"
install_tree
expect_line "$configuration" "# mine"
expect_line "$work/log" "-- Kept: $configuration"

# The prefix /usr has its configuration in /etc, as in the packages.
DESTDIR=$work/stage cmake --install "$build" --component agent --prefix /usr >"$work/log"
[ -e "$work/stage/etc/eoib/eoibd.toml" ] && [ ! -e "$work/stage/usr/etc" ] || fail "the configuration for /usr is not in /etc"
cmp "$work/stage/usr/lib/systemd/system/eoibd.service" "$source/deploy/systemd/eoibd.service"

cmake -S "$source" -B "$work/build" -G Ninja -DBUILD_TESTING=OFF -DEOIB_OPENVSWITCH=OFF -DEOIB_VHOST=OFF -DCMAKE_CXX_FLAGS=-O3 \
  >"$work/log" 2>&1 || fail "without tests: $(cat "$work/log")"
ninja -C "$work/build" -t targets all >"$work/targets"
! grep -E "_tests: CXX_EXEC|gtest|vswitchd|eoib-vhost" "$work/targets" || fail "the targets above should not be built"
if cmake -S "$source" -B "$work/typo" -DEOIB_VHOST=no >"$work/log" 2>&1; then fail "EOIB_VHOST=no is taken"; fi
grep -qF 'EOIB_VHOST is "no": write -DEOIB_VHOST=AUTO, ON or OFF' "$work/log" || fail "EOIB_VHOST=no: $(cat "$work/log")"
commands=$work/build/compile_commands.json
grep -q "control/agent.cc" "$commands" || fail "the agent is not built"
grep '"command"' "$commands" | grep -v -- " -O3 .*-DNDEBUG" && fail "the commands above lack the user's flags or -DNDEBUG"
grep -E "lld|ccache|unity_|pch" "$commands" && fail "the commands above have options that nobody asked for"
exit 0
