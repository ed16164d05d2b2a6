#include "tests/vm/linux_guest.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace eoib::lab {
namespace {

constexpr char kStatus[] = "--status ";

// The directory of kernel and initramfs, which are made at the first use.
const std::string& Directory() {
  static const std::string directory = [] {
    const char* const tree = std::getenv("EOIB_VM_DIRECTORY");
    const RunResult made = RunOnMachine(
        {"tests/vm/linux_guest.sh", tree == nullptr ? "build/vm" : tree}, absl::Seconds(200));
    if (!made.ok()) Die("make a Linux guest: " + made.ToString());
    return std::string(absl::StripAsciiWhitespace(made.out));
  }();
  return directory;
}

}  // namespace

LinuxGuest::LinuxGuest(Lab* lab, Host* host, QemuGuestSpec spec)
    : shell_(lab->Path(spec.name + ".shell")),
      machine_(lab, host, WithKernel(std::move(spec), shell_)) {}

QemuGuestSpec LinuxGuest::WithKernel(QemuGuestSpec spec, const std::string& shell) {
  const std::string& directory = Directory();
  if (spec.memory.empty()) spec.memory = "262208K";
  // QEMU 7.2 crashes where it emulates the processor, the driver of a vhost-user device uses MSI-X,
  // and there is no KVM.
  spec.device += ",vectors=0";
  // no_timer_check: the emulated timer is late while this machine is busy.
  spec.boot = {"-kernel",
               directory + "/vmlinux",
               "-initrd",
               directory + "/guest.cpio",
               "-append",
               "console=ttyS0 panic=-1 oops=panic mitigations=off nokaslr norandmaps tsc=reliable "
               "no_timer_check audit=0"};
  spec.more = Concatenated(
      {"-cpu", "max", "-serial", absl::StrCat("unix:", shell, ",server=on,wait=off")}, spec.more);
  return spec;
}

bool LinuxGuest::IsReady() {
  return EventuallyTrue(kPatience,
                        [this] { return absl::StrContains(machine_.Console(), "guest is ready"); });
}

bool LinuxGuest::Connect() {
  if (channel_.valid()) return true;
  channel_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  shell_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(channel_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
    return true;
  channel_ = UniqueFd();
  return false;
}

RunResult LinuxGuest::Run(const std::string& command, absl::Duration limit) {
  RunResult result;
  const std::string line = command + "\n";
  if (!Connect() ||
      write(channel_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    result.err = "there is no shell";
    return result;
  }
  const absl::Time end = absl::Now() + limit;
  while (absl::Now() < end) {
    pollfd waiting{channel_.get(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(end - absl::Now())));
    char bytes[4096];
    const ssize_t size =
        (waiting.revents & POLLIN) != 0 ? read(channel_.get(), bytes, sizeof(bytes)) : 0;
    if (size <= 0) break;
    result.out.append(bytes, static_cast<size_t>(size));
    const size_t at = result.out.rfind(kStatus);
    if (at == std::string::npos || result.out.back() != '\n') continue;
    const bool is_number = absl::SimpleAtoi(
        absl::StripAsciiWhitespace(result.out.substr(at + sizeof(kStatus) - 1)), &result.exit_code);
    result.out.resize(at);
    if (is_number) return result;
  }
  result.exit_code = -1;
  result.err = "no answer to: " + command;
  return result;
}

std::string LinuxGuest::MustRun(const std::string& command, absl::Duration limit) {
  const RunResult result = Run(command, limit);
  EXPECT_TRUE(result.ok()) << command << "\n" << result.ToString() << machine_.Console();
  return result.out;
}

}  // namespace eoib::lab
