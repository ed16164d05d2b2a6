#include "gateway/translation/frame_joiner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vswitch/wire/segment_extension.h"

namespace eoib::gateway {
namespace {

constexpr size_t kIp = kEthernetHeaderSize;
// Of TCP, in a super-frame (IsSuperFrame)
constexpr size_t kSmallestSegment = 8;
constexpr size_t kLargest = kLargestSuperFrame - kVlanTagSize;  // the forwarder may insert a tag

}  // namespace

void FrameJoiner::Start(BufferPool* pool, uint32_t mtu) {
  pool_ = pool;
  layout_ = PieceLayout(mtu);
}

bool FrameJoiner::Append(absl::Span<const uint8_t> header, absl::Span<const uint8_t> packet,
                         size_t* buffers) {
  segment_ = SegmentRun::Parse(packet);
  if (segment_.has_value() && !SegmentRun::HasRightChecksum(packet, *segment_)) segment_.reset();
  if (frame_ == nullptr) return false;
  const bool may_join = segment_.has_value() && std::memcmp(frame_->data, header.data(), kIp) == 0;
  if (may_join && Join(packet, *segment_, buffers)) return true;
  End();
  return false;
}

bool FrameJoiner::Continue(absl::Span<const uint8_t> packet, bool checksums_ok, size_t* buffers) {
  if (frame_ == nullptr) return false;
  const absl::optional<SegmentRun::Segment> segment = SegmentRun::Parse(packet);
  return segment.has_value() && !segment->udp && run_.IsContinuedBy(packet, *segment) &&
         (checksums_ok || SegmentRun::HasRightChecksum(packet, *segment)) &&
         Join(packet, *segment, buffers);
}

bool FrameJoiner::Join(absl::Span<const uint8_t> packet, const SegmentRun::Segment& segment,
                       size_t* buffers) {
  if (!run_.IsContinuedBy(packet, segment) || !MayGrow(segment.payload_length(), *buffers))
    return false;
  BufferId next = BufferId::None();
  if (segment.payload_length() > RoomInPiece()) {
    next = pool_->Allocate();
    if (next.IsNone()) return false;
    --*buffers;
  }
  run_.Continue(packet, segment);
  Fill(packet.subspan(segment.payload, segment.payload_length()), next);
  return true;
}

uint32_t FrameJoiner::RoomInPiece() const {
  if (!open_.IsNone()) return layout_.piece - filled_;
  return layout_.first - std::min(layout_.first, frame_->length);
}

// A frame in one datagram may be longer than the first of several pieces.
uint32_t FrameJoiner::TailOfFirst() const {
  return frame_->length - std::min(layout_.first, frame_->length);
}

bool FrameJoiner::MayGrow(uint32_t bytes, size_t buffers) const {
  if (frame_->total() + bytes > kLargest) return false;
  if (bytes <= RoomInPiece()) return true;
  return buffers != 0 && frame_->buffers < kMaxSegments && TailOfFirst() + bytes <= layout_.piece;
}

// `next` is the piece behind the present one; none if that has room for all.
void FrameJoiner::Fill(absl::Span<const uint8_t> bytes, BufferId next) {
  const size_t here = std::min<size_t>(bytes.size(), RoomInPiece());
  uint8_t* const end =
      open_.IsNone() ? frame_->data + frame_->length : pool_->Frame(open_) + filled_;
  std::memcpy(end, bytes.data(), here);
  if (open_.IsNone()) {
    frame_->length += static_cast<uint32_t>(here);
  } else {
    filled_ += static_cast<uint32_t>(here);
    frame_->rest += static_cast<uint32_t>(here);
  }
  if (next.IsNone()) return;
  const uint32_t tail = TailOfFirst();
  ClosePiece();
  open_ = next;
  ++frame_->buffers;
  if (tail != 0 && frame_->buffers == 2) {
    std::memcpy(pool_->Frame(open_), frame_->data + layout_.first, tail);
    frame_->length = layout_.first;
    filled_ = frame_->rest = tail;
  }
  const absl::Span<const uint8_t> left = bytes.subspan(here);
  std::memcpy(pool_->Frame(open_) + filled_, left.data(), left.size());
  filled_ += static_cast<uint32_t>(left.size());
  frame_->rest += static_cast<uint32_t>(left.size());
}

void FrameJoiner::ClosePiece() {
  if (open_.IsNone()) return;
  pool_->Append(last_, open_, pool_->Frame(open_), filled_);
  last_ = std::exchange(open_, BufferId::None());
  filled_ = 0;
}

void FrameJoiner::Begin(Frame* frame) {
  if (!segment_.has_value() || segment_->payload_length() < kSmallestSegment) return;
  frame_ = frame;
  last_ = frame->buffer;
  run_.Begin({frame->data + kIp, frame->length - kIp}, *segment_);
}

void FrameJoiner::End() {
  Frame* const frame = std::exchange(frame_, nullptr);
  if (frame == nullptr || run_.count() == 1) return;
  ClosePiece();
  const SegmentRun::Segment& first = run_.first();
  const absl::Span<const uint8_t> headers = run_.Headers();
  std::memcpy(frame->data + kIp, headers.data(), headers.size());
  frame->gso = {first.udp ? GsoType::kUdp : GsoType::kTcp, first.payload_length()};
  frame->checksum = {true, static_cast<uint16_t>(kIp + first.l4), first.checksum_offset()};
}

}  // namespace eoib::gateway
