#include "vswitch/port/vnet_writer.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// Calls `transmit` with the frame without its tag: moves the MACs over the tag, and restores both
// afterwards, because the caller keeps the frame.
template <typename Transmit>
DropReason WithoutTag(const Frame& frame, Transmit transmit) {
  uint8_t tag[kVlanTagSize];
  std::memcpy(tag, frame.data + kMacsSize, kVlanTagSize);
  RemoveVlanTag(frame.data);
  Frame stripped = frame;
  stripped.data += kVlanTagSize;
  stripped.length -= kVlanTagSize;
  stripped.checksum.start -= frame.checksum.needed ? kVlanTagSize : 0;
  const DropReason reason = transmit(stripped);
  std::memmove(frame.data, frame.data + kVlanTagSize, kMacsSize);
  std::memcpy(frame.data + kMacsSize, tag, kVlanTagSize);
  return reason;
}

}  // namespace

VnetWriter::VnetWriter(const VnetWriter* first)
    : fd_(first->fd_),
      reason_of_(first->reason_of_),
      long_frames_(first->long_frames_),
      limits_(first->limits_) {
  coalescer_.set_joins_udp(first->coalescer_.joins_udp());
}

DropReason VnetWriter::Transmit(const Frame& frame, bool strip_tag) noexcept {
  if (ABSL_PREDICT_FALSE(!up())) return DropReason::kPortDown;
  if (!strip_tag) {
    if (ABSL_PREDICT_FALSE(frame.length > largest())) return DropReason::kPortTooLarge;
    if (coalescer_.Add({frame.data, frame.length}, frame.checksum)) return DropReason::kNone;
    WriteJoined();  // first, to keep the order of frames
    if (coalescer_.Add({frame.data, frame.length}, frame.checksum)) return DropReason::kNone;
    return Write(frame.checksum, {frame.data, frame.length}, {});
  }
  return WithoutTag(
      frame, [this](const Frame& stripped) { return Transmit(stripped, /*strip_tag=*/false); });
}

DropReason VnetWriter::TransmitLarge(const BufferPool& pool, const Frame& frame,
                                     bool strip_tag) noexcept {
  if (!strip_tag) return WriteLarge(pool, frame);
  return WithoutTag(frame,
                    [this, &pool](const Frame& stripped) { return WriteLarge(pool, stripped); });
}

// The frame is not copied: one writev gathers its buffers. The interface's MTU limits what the
// frame is cut into.
DropReason VnetWriter::WriteLarge(const BufferPool& pool, const Frame& frame) noexcept {
  if (ABSL_PREDICT_FALSE(!up())) return DropReason::kPortDown;
  WriteJoined();  // first, to keep the order of frames
  VnetHeader header = HeaderFor(frame);
  const size_t largest_segment =
      frame.gso.type == GsoType::kNone ? frame.total() : header.header_length + frame.gso.size;
  if (ABSL_PREDICT_FALSE(largest_segment > largest())) return DropReason::kPortTooLarge;
  std::array<iovec, kMaxSegments + 1> parts;
  parts[0] = {&header, sizeof(header)};
  size_t count = 1;
  VisitPieces(pool, frame, [&](absl::Span<uint8_t> piece) {
    parts[count++] = {piece.data(), piece.size()};
  });
  return WriteParts({parts.data(), count});
}

size_t VnetWriter::Flush(DropReason* reason) noexcept {
  WriteJoined();
  *reason = lost_reason_;
  return std::exchange(lost_, 0);
}

void VnetWriter::WriteJoined() noexcept {
  if (!coalescer_.pending()) return;
  const Coalescer::Joined joined = coalescer_.Take();
  VnetHeader header{};
  if (joined.segments > 1) {
    header.Describe({joined.udp ? GsoType::kUdp : GsoType::kTcp, joined.segment_length},
                    joined.ipv6, joined.header_length);
  }
  const DropReason reason = Write(joined.checksum, joined.frame, header);
  if (ABSL_PREDICT_TRUE(reason == DropReason::kNone)) return;
  lost_ += joined.segments;
  lost_reason_ = reason;
}

DropReason VnetWriter::Write(const ChecksumRequest& checksum, absl::Span<const uint8_t> frame,
                             VnetHeader header) noexcept {
  header.Request(checksum);
  const iovec parts[] = {{&header, sizeof(header)},
                         {const_cast<uint8_t*>(frame.data()), frame.size()}};
  return WriteParts(parts);
}

DropReason VnetWriter::WriteParts(absl::Span<const iovec> parts) noexcept {
  if (ABSL_PREDICT_TRUE(writev(fd_, parts.data(), static_cast<int>(parts.size())) >= 0))
    return DropReason::kNone;
  int error = errno;
  if (error == EMSGSIZE && long_frames_ != nullptr) error = long_frames_->Send(parts);
  return error == 0 ? DropReason::kNone : reason_of_(error);
}

VnetHeader VnetWriter::HeaderFor(const Frame& frame) noexcept {
  VnetHeader header;
  header.Request(frame.checksum);
  if (frame.gso.type == GsoType::kNone) return header;
  const L4Location l4 = FindL4(frame.bytes(), frame.total());
  header.Describe(frame.gso, frame.data[l4.ip] >> 4 == 6, l4.l4 + L4HeaderSize(frame.bytes(), l4));
  return header;
}

}  // namespace eoib
