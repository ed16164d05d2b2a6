#include "vswitch/base/event_fd.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>

namespace eoib {

UniqueFd MakeEventFd() { return UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

void RingEventFd(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

void ClearEventFd(int fd) {
  uint64_t count;
  // RWF_NOWAIT: does not block even if the program has cleared O_NONBLOCK.
  iovec bytes{&count, sizeof(count)};
  [[maybe_unused]] const ssize_t got = preadv2(fd, &bytes, 1, -1, RWF_NOWAIT);
}

}  // namespace eoib
