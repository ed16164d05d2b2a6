// VnetWriter: writes frames to a descriptor that takes a virtio_net_hdr in front of each, a TAP or
// a packet socket. It joins segments on the way (Coalescer).
//
// For the worker that owns the port. Any thread may call SetLargest and SetUp.
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
#include "vswitch/port/long_frame_sender.h"
#include "vswitch/port/vnet_header.h"

namespace eoib {

class VnetWriter {
 public:
  // The drop reason for a write that failed with this errno value.
  using ReasonOf = DropReason (*)(int error);

  // `fd` stays open as long as the writer lives. `long_frames`, which outlives it, sends what `fd`
  // refuses as too long; or null.
  VnetWriter(int fd, ReasonOf reason_of, LongFrameSender* long_frames = nullptr)
      : fd_(fd), reason_of_(reason_of), long_frames_(long_frames), limits_(&own_limits_) {}
  // A writer for another worker, with the descriptor and the limits of `first`, which outlives it.
  // The kernel takes frames that several threads write at once; only the frames that wait to be
  // joined belong to one thread.
  explicit VnetWriter(const VnetWriter* first);

  // Whether the kernel knows UDP super-frames.
  void set_joins_udp(bool joins) { coalescer_.set_joins_udp(joins); }
  // The largest frame, from the destination MAC on, with its tags. At first 0.
  void SetLargest(uint32_t bytes) { own_limits_.largest.store(bytes, std::memory_order_relaxed); }
  uint32_t largest() const { return limits_->largest.load(std::memory_order_relaxed); }
  // At first it is up. While it is not, Transmit refuses frames as kPortDown.
  void SetUp(bool up) { own_limits_.up.store(up, std::memory_order_relaxed); }
  bool up() const { return limits_->up.load(std::memory_order_relaxed); }

  // As those of Port.
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept;
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept;
  size_t Flush(DropReason* reason) noexcept;

  // The header of a frame whose GSO was validated (ParseSuperFrame).
  static VnetHeader HeaderFor(const Frame& frame) noexcept;

 private:
  struct Limits {
    std::atomic<uint32_t> largest{0};
    std::atomic<bool> up{true};
  };

  DropReason WriteLarge(const BufferPool& pool, const Frame& frame) noexcept;
  void WriteJoined() noexcept;
  DropReason Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame,
                   VnetHeader header) noexcept;
  DropReason WriteParts(absl::Span<const iovec> parts) noexcept;

  const int fd_;
  const ReasonOf reason_of_;
  LongFrameSender* const long_frames_;
  Limits own_limits_;
  const Limits* const limits_;  // own_limits_, or those of the first writer
  Coalescer coalescer_;
  size_t lost_ = 0;  // joined frames lost in failed writes since the last Flush
  DropReason lost_reason_ = DropReason::kNone;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VNET_WRITER_H_
