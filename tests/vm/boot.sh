#!/bin/bash
# Runs a program in a virtual machine with Debian's kernel, as root, and exits with its status:
#
#   tests/vm/boot.sh [--modprobe NAME]... [--module PATH.ko]... [--limit SECONDS] [--memory MIB] [--cpus N] -- PROGRAM [ARGUMENT]...
#
# QEMU emulates the machine, so KVM is not needed. Its root is this machine's file system, read-only, below a layer in memory:
# the program finds itself, its libraries, this tree and all installed tools at their usual paths, and its changes are thrown
# away. It gets the working directory and the environment variables EOIB_* and GTEST_*. Modules are loaded first. If the
# program fails, the kernel's messages are shown.
#
# Exit status: the program's; 124 after the time limit; 125 if the machine could not run it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
limit=280
memory=1024
cpus=1  # more than one is slower on a small host: the holder of a spinlock may not be running
loads=()

usage() {
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 125
}

while [ $# -gt 0 ]; do
  case $1 in
    --modprobe) loads+=("modprobe $(printf %q "$2")") ;;
    --module) loads+=("insmod $(printf %q "$(realpath "$2")")") ;;
    --limit) limit=$2 ;;
    --memory) memory=$2 ;;
    --cpus) cpus=$2 ;;
    --) shift; break ;;
    *) usage ;;
  esac
  shift 2
done
[ $# -gt 0 ] || usage
for tool in qemu-system-x86_64 busybox cpio depmod; do
  command -v "$tool" >/dev/null || {
    echo "boot.sh: there is no $tool: apt-get install qemu-system-x86 busybox-static cpio kmod" >&2
    exit 125
  }
done

kernel=$("$here/kernel.sh" "${EOIB_VM_DIRECTORY:-$here/../../build/vm}")
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
{
  for load in "${loads[@]}"; do echo "$load || { echo 'failed: $load'; exit 125; }"; done
  export -p | grep -E '^declare -x (EOIB|GTEST)_' || true
  printf 'export TMPDIR=/tmp\ncd %q\n' "$PWD"
  printf '%q ' "$@"
  echo
} >"$run/commands"

# norandmaps: QEMU translates a page of a library only once if all processes map it at the same address. tsc: cheaper to read
# than the emulated timers. no_timer_check: the emulated timer is late while this machine is busy. The output goes through a
# pipe, since QEMU would overwrite a file from its start.
append="console=ttyS0 loglevel=6 panic=-1 oops=panic mitigations=off nokaslr norandmaps tsc=reliable no_timer_check audit=0 selinux=0 apparmor=0"
append+=" kernel=$kernel guest=$here/guest.sh commands=$run/commands"
# The machine ends with this script, even if the script is killed.
run_machine() {  # run_machine SECONDS
  rm -f "$run/status" "$run/pid"
  setpriv --pdeathsig KILL timeout --foreground --kill-after=5 "$1" setpriv --pdeathsig KILL qemu-system-x86_64 \
    -nodefaults -no-user-config -no-reboot -display none -M q35 -accel tcg,thread=multi -cpu max -smp "$cpus" -m "$memory" \
    -kernel "$kernel/vmlinux" -initrd "$kernel/initramfs.cpio" \
    -append "$append" -pidfile "$run/pid" \
    -fsdev local,id=machine,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=machine,mount_tag=machine \
    -serial "file:$run/console" -device virtio-serial-pci \
    -chardev file,id=output,path=/dev/fd/1,append=on -device virtserialport,chardev=output,name=eoib.output \
    -chardev "file,id=status,path=$run/status" -device virtserialport,chardev=status,name=eoib.status \
    -device virtio-rng-pci </dev/null | cat
}

# Kills a machine whose kernel has not started its first process after several times the longest boot seen on a busy host. On a
# shared processor about one boot in some dozens hangs in QEMU's emulation. Leaves the file `stuck`.
watch_boot() {
  local end=$((SECONDS + boot_limit))
  while [ "$SECONDS" -lt "$end" ]; do
    sleep 1
    # If this script was killed, so was the machine, and its process number may be reused.
    if grep -qs booted "$run/status" || ! kill -0 $$ 2>/dev/null; then return; fi
  done
  touch "$run/stuck"
  kill -KILL "$(cat "$run/pid")" 2>/dev/null || true
}

boot_limit=${EOIB_VM_BOOT_SECONDS:-90}
for try in 1 2 3; do
  rm -f "$run/stuck"
  watch_boot >"$run/watcher" 2>&1 </dev/null &
  watcher=$!
  status=0
  run_machine $((limit - SECONDS)) || status=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  if [ ! -e "$run/stuck" ] || [ $((SECONDS + 2 * boot_limit)) -gt "$limit" ]; then break; fi
  echo "boot.sh: the kernel did not come up within $boot_limit s (attempt $try); the last line of its console:" >&2
  tail -n 1 "$run/console" >&2 || true
done
if [ -e "$run/stuck" ]; then status=125; fi
if [ "$status" = 0 ]; then status=$(tr -dc 0-9 <"$run/status"); fi  # the file first says "booted"
if [ "${status:-}" != 0 ]; then
  echo "---- the virtual machine's console"
  tail -n 100 "$run/console" || true
  case ${status:-} in
    124) echo "boot.sh: the program still ran after $limit s" >&2 ;;
    '') echo "boot.sh: the virtual machine ended before the program did" >&2 ;;
  esac
fi
exit "${status:-125}"
