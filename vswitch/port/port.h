// Port: where Ethernet frames enter and leave the switch. TapPort is one; TestPort is another; a physical NIC and an Open
// vSwitch port will be others.
#ifndef EOIB_VSWITCH_PORT_PORT_H_
#define EOIB_VSWITCH_PORT_PORT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "vswitch/port/frame.h"
#include "vswitch/wire/drop_reason.h"

namespace eoib {

// One frame that a Receive could not take as it is: counted by the caller as an ingress drop.
struct PortReceiveCounts {
  size_t too_large = 0;  // longer than the pool's frame size: read to the end and discarded, never truncated
  size_t bad_checksum_request = 0;
  size_t runt = 0;
  bool would_block = false;  // nothing more to read now
};

// Receive and Transmit: the worker that owns the port. The rest: control.
class Port {
 public:
  virtual ~Port() = default;

  virtual const std::string& name() const = 0;
  // Readable when there are frames; what a worker puts into its epoll set (level-triggered).
  virtual int receive_fd() const = 0;

  // Up to out.size() frames into buffers that it allocates from `pool`; each belongs to the batch. Stops early when the pool is
  // empty (the frames then stay in the kernel). Returns how many, and in *counts what could not be taken.
  virtual size_t Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept = 0;

  // Hands `frame` to the interface, with its checksum request. With strip_tag, the 802.1Q tag that the frame has is left out,
  // without a change to the frame. The buffer stays the caller's. kNone, or kPortDown, kPortFull, kPortTooLarge, kPortError. A
  // port may keep a copy back until Flush, to join it with others; it then answers kNone.
  virtual DropReason Transmit(const Frame& frame, bool strip_tag) noexcept = 0;
  // Ends a batch: hands over what Transmit kept back. Returns how many of the frames that Transmit took since the last Flush
  // were lost after all, and why.
  virtual size_t Flush(DropReason* reason) noexcept {
    *reason = DropReason::kNone;
    return 0;
  }

  // The interface's own MAC, for `eoibctl show` and the announcement at start; zero if it has none.
  virtual MacAddr mac() const = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PORT_H_
