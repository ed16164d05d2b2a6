// LinuxGuest: a virtual machine on a host of a lab that runs Debian's kernel with its stock
// drivers, from an initramfs (linux_guest.sh). The test types commands at its second serial port;
// busybox runs them.
#ifndef EOIB_TESTS_VM_LINUX_GUEST_H_
#define EOIB_TESTS_VM_LINUX_GUEST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/vm/qemu_guest.h"
#include "vswitch/base/unique_fd.h"

namespace eoib::lab {

class LinuxGuest {
 public:
  // How long an emulated machine may take to boot, or to do something, on a busy machine.
  static constexpr absl::Duration kPatience = absl::Seconds(90);

  // `spec` has what is not that of the kernel: name, MAC, netdev, device, more.
  LinuxGuest(Lab* lab, Host* host, QemuGuestSpec spec);

  // Waits until it takes commands. False if it does not in time.
  bool IsReady();
  // Runs a command of the shell. The output has both streams. exit_code is -1 if no answer came in
  // time.
  RunResult Run(const std::string& command, absl::Duration limit = kPatience);
  // The same; a failure fails the test.
  std::string MustRun(const std::string& command, absl::Duration limit = kPatience);
  QemuGuest& machine() { return machine_; }

 private:
  static QemuGuestSpec WithKernel(QemuGuestSpec spec, const std::string& shell);
  bool Connect();

  const std::string shell_;  // a socket
  UniqueFd channel_;
  QemuGuest machine_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_VM_LINUX_GUEST_H_
