// Port: the interface of a place where Ethernet frames enter and leave the switch, such as a TAP, a
// netdev, a vhost-user socket, or a gateway.
#ifndef EOIB_VSWITCH_PORT_PORT_H_
#define EOIB_VSWITCH_PORT_PORT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/port/frame.h"

namespace eoib {

// Frames that Receive refused. The caller counts them as ingress drops.
struct PortReceiveCounts {
  size_t too_large = 0;  // longer than the port can give; discarded whole, never truncated
  size_t bad_checksum_request = 0;
  size_t runt = 0;
  size_t link_local_control = 0;
  size_t vlan_not_allowed = 0;
  size_t standby = 0;
};

// The worker that owns the port calls Receive, Transmit and Flush; control calls the rest. A vPort
// of a VES with several queues has a port at each of them, which belong to different workers. One
// worker calls Receive, at its own port.
class Port {
 public:
  virtual ~Port() = default;

  // Readable when there are frames. The worker adds it to its epoll set (level-triggered).
  virtual int receive_fd() const = 0;

  // Reads up to out.size() frames into buffers from `pool`, which then belong to the batch. Stops
  // early when the pool is empty (the frames then stay in the kernel), or when the frames have
  // out.size() buffers. Frames in several buffers have the layout for the VES MTU `mtu`. Returns
  // the number of frames, and the refused ones in *counts.
  virtual size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                         PortReceiveCounts* counts) noexcept = 0;

  // Hands `frame` to the interface, with its checksum request. With strip_tag, leaves out the
  // frame's 802.1Q tag; the frame is unchanged afterwards. The caller keeps the buffer. Returns
  // kNone, kPortDown, kPortFull, kPortTooLarge or kPortError. A port may hold back a copy until
  // Flush, to join it with others; it then returns kNone.
  virtual DropReason Transmit(const Frame& frame, bool strip_tag) noexcept = 0;
  // The same for a frame that IsLarge, whose buffers are in `pool`. The forwarder calls it if
  // TakesLarge(frame.gso) is true; for other ports it cuts the frame.
  virtual bool TakesLarge([[maybe_unused]] const Gso& gso) const noexcept { return false; }
  virtual DropReason TransmitLarge([[maybe_unused]] const BufferPool& pool,
                                   [[maybe_unused]] const Frame& frame,
                                   [[maybe_unused]] bool strip_tag) noexcept {
    return DropReason::kPortError;
  }
  // Ends a batch: hands over what Transmit held back. Returns how many of the frames that Transmit
  // took since the last Flush were lost, and the reason.
  virtual size_t Flush(DropReason* reason) noexcept {
    *reason = DropReason::kNone;
    return 0;
  }

  // Whether programs of this host have the other end, by sockets: nothing holds back those that
  // send, and the worker has to let those run that receive.
  virtual bool ServesSockets() const noexcept { return false; }

  // The interface's own MAC, for `eoibctl show` and the announcement at start; zero if it has none.
  virtual MacAddr mac() const = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PORT_H_
