// VnetWriter: writes frames to a descriptor that takes a virtio_net_hdr in front of each, a TAP or a packet socket. It joins
// segments on the way (Coalescer).
//
// For the worker that owns the port. Any thread may call SetLargest.
#ifndef EOIB_VSWITCH_PORT_VNET_WRITER_H_
#define EOIB_VSWITCH_PORT_VNET_WRITER_H_

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/base/drop_reason.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/coalescer.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/vnet_header.h"

namespace eoib {

class VnetWriter {
 public:
  // The drop reason for a write that failed with this errno value.
  using ReasonOf = DropReason (*)(int error);

  // `fd` stays open as long as the writer lives.
  VnetWriter(int fd, ReasonOf reason_of) : fd_(fd), reason_of_(reason_of) {}

  // Whether the kernel knows UDP super-frames.
  void set_joins_udp(bool joins) { coalescer_.set_joins_udp(joins); }
  // The largest frame, from the destination MAC on, with its tag. At first 0.
  void SetLargest(uint32_t bytes) { largest_.store(bytes, std::memory_order_relaxed); }
  uint32_t largest() const { return largest_.load(std::memory_order_relaxed); }

  // As those of Port.
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept;
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept;
  size_t Flush(DropReason* reason) noexcept;

  // The header of a frame whose GSO was validated (ParseSuperFrame).
  static VnetHeader HeaderFor(const Frame& frame) noexcept;

 private:
  DropReason WriteLarge(const BufferPool& pool, const Frame& frame) noexcept;
  void WriteJoined() noexcept;
  DropReason Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame, VnetHeader header) noexcept;
  DropReason WriteParts(absl::Span<const iovec> parts) noexcept;

  const int fd_;
  const ReasonOf reason_of_;
  std::atomic<uint32_t> largest_{0};
  Coalescer coalescer_;
  size_t lost_ = 0;  // joined frames lost in failed writes since the last Flush
  DropReason lost_reason_ = DropReason::kNone;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VNET_WRITER_H_
