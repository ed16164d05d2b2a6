// QemuGuest: a virtual machine without an image on a host of a lab. Its firmware boots by PXE:
// SeaBIOS and iPXE, the ROM of QEMU's virtio-net; or it boots a kernel (linux_guest.h). QEMU
// emulates the processor. The console is the first serial port.
#ifndef EOIB_TESTS_VM_QEMU_GUEST_H_
#define EOIB_TESTS_VM_QEMU_GUEST_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/lab/lab.h"
#include "tests/lab/process.h"

namespace eoib::lab {

struct QemuGuestSpec {
  std::string name = "vm1";
  std::string mac = "52:54:00:00:00:01";
  Argv netdev;                // QEMU's options that make the netdev "net0"
  std::string shared = "on";  // share= of the memory
  // The file of the memory, in place of an anonymous one that cannot shrink.
  std::string memory_file;
  std::string device;  // further properties of the device: ",host_mtu=1500"
  // Empty: enough for firmware, or for Linux. Never a multiple of 256 KiB: then QEMU 7.2's
  // emulation loses writes of a guest that migrates (the synchronisation of the dirty bitmap takes
  // a fast path that does not tell the emulated TLB; mended in 9.0).
  std::string memory;
  Argv boot = {"-boot", "n"};
  Argv more;
};

class QemuGuest {
 public:
  QemuGuest(Lab* lab, Host* host, const QemuGuestSpec& spec)
      : console_(lab->Path(spec.name + ".console")) {
    const std::string memory = spec.memory.empty() ? "65600K" : spec.memory;
    const Argv machine = {
        "qemu-system-x86_64",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-accel",
        "tcg",
        "-m",
        memory,
        "-machine",
        "q35,graphics=off,memory-backend=mem",
        "-object",
        absl::StrCat(
            spec.memory_file.empty() ? "memory-backend-memfd" : "memory-backend-file,mem-path=",
            spec.memory_file, ",id=mem,size=", memory, ",share=", spec.shared),
        "-device",
        absl::StrCat("virtio-net-pci,netdev=net0,mac=", spec.mac, spec.device),
        "-serial",
        "file:" + console_};
    process_ = host->Start(
        Concatenated(Concatenated(machine, spec.netdev), Concatenated(spec.boot, spec.more)));
  }

  // The output of firmware and kernel.
  std::string Console() const { return ReadFile(console_); }
  Process* process() { return process_.get(); }

 private:
  const std::string console_;
  std::unique_ptr<Process> process_;
};

// QEMU's options for a netdev at a vhost-user socket. `chardev` has further options of the socket:
// ",server=on".
inline Argv VhostUser(const std::string& socket, const std::string& chardev = "") {
  return {"-chardev", "socket,id=socket0,path=" + socket + chardev, "-netdev",
          "vhost-user,id=net0,chardev=socket0"};
}
// The same for a TAP that exists.
inline Argv ExistingTap(const std::string& tap) {
  return {"-netdev", "tap,id=net0,script=no,downscript=no,ifname=" + tap};
}

}  // namespace eoib::lab

#endif  // EOIB_TESTS_VM_QEMU_GUEST_H_
