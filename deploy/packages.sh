# Sourced by deploy/quickstart.sh, tests/run.sh and tests/bench/*.sh: the Debian 12 packages and the build, in one place.

# Each set is installed on top of the ones before. build: to compile. run: for the quickstart. test: for tests/run.sh. package: for
# package.sh and the tests of the packages. profile: flame graphs and plots. bench: the hash tables that fdb_bench compares the
# FDB with. net: the switch that net_bench compares ours with. generator: the packet generator of vm_bench. all: for
# tests/run.sh --all.
PACKAGES_build="build-essential cmake ninja-build ccache lld pkg-config libabsl-dev libgflags-dev libgtest-dev libgmock-dev
  libtomlplusplus-dev nlohmann-json3-dev libvalijson-dev libibverbs-dev libibumad-dev libibmad-dev libmnl-dev liburing-dev
  libsystemd-dev prometheus-cpp-dev libdpdk-dev openvswitch-source libssl-dev python3"
PACKAGES_run="iproute2 iputils-ping iperf3 procps"
PACKAGES_test="ibverbs-utils ibverbs-providers infiniband-diags perftest python3-pyverbs rdmacm-utils tshark ethtool
  openvswitch-common openvswitch-switch net-tools tcpdump socat ndisc6 git binutils radvd dnsmasq-base isc-dhcp-client iputils-arping
  qemu-system-x86 libvirt0 libxml2-utils busybox-static cpio kmod xz-utils linux-headers-amd64 opensm systemd curl
  prometheus mandoc bash-completion clang-format"
PACKAGES_package="dpkg-dev lintian mmdebstrap"
PACKAGES_profile="linux-perf python3 python3-matplotlib"
PACKAGES_bench="libbenchmark-dev"
PACKAGES_net="openvswitch-switch"
PACKAGES_generator="dpdk-dev"
PACKAGES_all="clang libclang-rt-14-dev llvm"

# install_packages SET...: installs the packages of the sets that are missing, as quietly as apt allows.
install_packages() {
  local set package missing=()
  for set in "$@"; do
    local -n list="PACKAGES_$set"
    for package in $list; do
      [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
  done
  if [ "${#missing[@]}" = 0 ]; then return 0; fi
  if [ "$(id -u)" != 0 ]; then
    echo "these packages are missing and only root can install them: ${missing[*]}" >&2
    return 1
  fi
  echo "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local try
  for try in 1 2 3; do
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then return 0; fi
    echo "apt-get failed, try $try of 3" >&2
  done
  return 1
}

# build_tree PRESET DIRECTORY TARGETS|all [-- CMAKE_ARGUMENTS...]: configures this source tree with a preset of CMakePresets.json
# in DIRECTORY, and builds it there.
build_tree() {
  local preset=$1 directory=$2 root targets=()
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    targets+=("$1")
    shift
  done
  if [ $# -gt 0 ]; then shift; fi
  mkdir -p "$directory"
  cmake --preset "$preset" -S "$root" -B "$directory" "$@" >"$directory.cmake.log" 2>&1 || { cat "$directory.cmake.log" >&2; return 1; }
  rm -f "$directory.cmake.log"
  cmake --build "$directory" --target "${targets[@]}"
}
