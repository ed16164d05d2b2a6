// Interrupts: adds to the eventfds of virtual machines, which interrupt their guests.
//
// The program of a machine holds the same eventfd. It may make the eventfd blocking and fill its
// counter, at any moment. A write would then block the worker, and with it all ports. So the kernel
// adds to the eventfd when it completes a request for asynchronous I/O (io_submit(2),
// IOCB_FLAG_RESFD): that never blocks, and leaves a full counter as it is.
#ifndef EOIB_VSWITCH_PORT_VHOST_INTERRUPTS_H_
#define EOIB_VSWITCH_PORT_VHOST_INTERRUPTS_H_

#include <utility>

#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

class Interrupts {
 public:
  // The one of this process. kFailedPrecondition if the kernel has no room for it; the message says
  // what to do. Control.
  static absl::StatusOr<Interrupts*> OfProcess();

  // Any thread. Does nothing if `fd` is no eventfd.
  void Raise(int fd) noexcept;

 private:
  Interrupts(unsigned long context, UniqueFd empty) : context_(context), empty_(std::move(empty)) {}

  const unsigned long context_;  // an aio_context_t
  const UniqueFd empty_;         // a file that each request reads: /dev/null
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_INTERRUPTS_H_
