#include "vswitch/port/vhost/interrupts.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

constexpr size_t kRequests = 128;  // whose completions the kernel keeps until they are collected

}  // namespace

absl::StatusOr<Interrupts*> Interrupts::OfProcess() {
  static Interrupts* made = nullptr;
  if (made != nullptr) return made;
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, kRequests, &context) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "set up asynchronous I/O for the interrupts of virtual machines: ", strerror(errno),
        errno == EAGAIN ? "; other programs use all of it: raise fs.aio-max-nr with sysctl" : ""));
  }
  UniqueFd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!empty.valid()) {
    const int error = errno;
    syscall(SYS_io_destroy, context);
    return absl::FailedPreconditionError(absl::StrCat("open /dev/null: ", strerror(error)));
  }
  made = new Interrupts(context, std::move(empty));
  return made;
}

void Interrupts::Raise(int fd) noexcept {
  iocb request{};
  request.aio_lio_opcode = IOCB_CMD_PREAD;
  request.aio_fildes = static_cast<uint32_t>(empty_.get());
  request.aio_flags = IOCB_FLAG_RESFD;
  request.aio_resfd = static_cast<uint32_t>(fd);
  iocb* const requests[] = {&request};
  // EAGAIN: there is no room for a further completion. All requests are complete when io_submit
  // returns.
  while (syscall(SYS_io_submit, context_, 1, requests) < 0 && errno == EAGAIN) {
    std::array<io_event, kRequests> completions;
    timespec at_once{};
    syscall(SYS_io_getevents, context_, 0, completions.size(), completions.data(), &at_once);
  }
}

}  // namespace eoib
