#include "vswitch/fabric/softhca/event_fd.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace eoib::softhca {
namespace {

// Asynchronous requests of this process that do nothing but complete. Thread-safe.
class Completions {
 public:
  Completions() : null_(open("/dev/null", O_WRONLY | O_CLOEXEC)) {
    if (syscall(SYS_io_setup, kRequests, &context_) != 0) context_ = 0;
  }

  // False if the kernel does not take the request.
  bool Signal(int eventfd) {
    if (context_ == 0) return false;
    iocb request{};
    request.aio_lio_opcode = IOCB_CMD_PWRITE;
    request.aio_fildes = static_cast<uint32_t>(null_.get());
    request.aio_flags = IOCB_FLAG_RESFD;
    request.aio_resfd = static_cast<uint32_t>(eventfd);
    if (Submit(&request)) return true;
    if (errno != EAGAIN) return false;
    // The queue is full of completions, since nobody reads them.
    Reap();
    return Submit(&request);
  }

 private:
  static constexpr unsigned kRequests = 128;

  bool Submit(iocb* request) { return syscall(SYS_io_submit, context_, 1, &request) == 1; }
  void Reap() {
    std::array<io_event, kRequests> events;
    timespec no_time{};
    while (syscall(SYS_io_getevents, context_, 0, events.size(), events.data(), &no_time) > 0) {
    }
  }

  const UniqueFd null_;
  aio_context_t context_ = 0;
};

}  // namespace

UniqueFd MakeEventFd() { return UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

void RingEventFd(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

void RingSharedEventFd(int fd) {
  static Completions& completions = *new Completions();  // for as long as the process runs: ports may be static, too
  if (!completions.Signal(fd)) RingEventFd(fd);
}

void ClearEventFd(int fd) {
  uint64_t count;
  iovec bytes{&count, sizeof(count)};
  const ssize_t got = preadv2(fd, &bytes, 1, -1, RWF_NOWAIT);
  if (got >= 0 || errno != EOPNOTSUPP) return;
  [[maybe_unused]] const ssize_t read_count = read(fd, &count, sizeof(count));  // before Linux 5.8
}

}  // namespace eoib::softhca
