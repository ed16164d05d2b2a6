#include "control/embed/lane_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "control/embed/burst_queue.h"
#include "vswitch/base/check.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

constexpr int kBatchesABurst = 4;       // from the queue pair, in one call of the program
constexpr size_t kLeastDatagrams = 16;  // of each: this number makes one super-frame

// Copies bytes out of a frame, one stretch after the other.
class Gatherer {
 public:
  explicit Gatherer(const eoib_frame& frame) : iov_(frame.iov) {}
  void Read(uint8_t* to, size_t size) {
    while (size > 0) {
      const size_t part = std::min(size, iov_->iov_len - at_);
      std::memcpy(to, static_cast<const uint8_t*>(iov_->iov_base) + at_, part);
      to += part;
      size -= part;
      at_ += part;
      if (at_ < iov_->iov_len) continue;
      ++iov_;
      at_ = 0;
    }
  }

 private:
  const iovec* iov_;
  size_t at_ = 0;
};

bool IsGso(const eoib_frame& frame) { return frame.segment_type != EOIB_SEGMENT_NONE; }

}  // namespace

void LanePort::Attach(std::shared_ptr<Lane> lane, uint32_t index) {
  EOIB_CHECK(lane_ == nullptr);
  lane_ = std::move(lane);
  index_ = index;
  attached_ = true;
  queue_->Add(this);
}

absl::Status LanePort::WatchEndpoint(int fd) { return queue_->Watch(fd); }

void LanePort::CountLost(size_t frames) {
  absl::MutexLock lock(&lane_->mutex);
  if (attached_) lane_->forwarder->ports()[index_].counters->dropped.Add(frames);
}

void LanePort::AddCounters(PortCounters* port, ForwarderCounters* forwarder) const {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return;
  port->Add(*lane_->forwarder->ports()[index_].counters);
  forwarder->Add(lane_->forwarder->counters());
}

// ---- Frames for the program ---------------------------------------------------------------------

size_t LanePort::Receive(absl::Span<eoib_frame> frames) {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return 0;
  Forwarder* const forwarder = lane_->forwarder;
  lane_->polled = true;
  target_ = frames;
  filled_ = 0;
  // Each datagram fills one frame, or a part of one. Super-frames need further batches for a decent
  // burst; what a small burst does not take is kept.
  for (int batches = 0; batches < kBatchesABurst && 2 * filled_ < frames.size(); ++batches) {
    if (!forwarder->PollFabric(std::max(frames.size() - filled_, kLeastDatagrams))) break;
  }
  forwarder->Housekeep();
  target_ = {};
  return filled_;
}

DropReason LanePort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  if (!strip_tag) return Deliver(frame.bytes(), frame.checksum, frame.gso);
  joined_.assign(frame.data, frame.data + kMacsSize);
  joined_.insert(joined_.end(), frame.data + kMacsSize + kVlanTagSize, frame.data + frame.length);
  ChecksumRequest request = frame.checksum;
  if (request.needed) request.start -= kVlanTagSize;
  return Deliver(joined_, request, frame.gso);
}

DropReason LanePort::TransmitLarge(const BufferPool& pool, const Frame& frame,
                                   bool strip_tag) noexcept {
  joined_.clear();
  VisitPieces(pool, frame, [this](absl::Span<uint8_t> piece) {
    joined_.insert(joined_.end(), piece.begin(), piece.end());
  });
  ChecksumRequest request = frame.checksum;
  if (strip_tag) {
    joined_.erase(joined_.begin() + kMacsSize, joined_.begin() + kMacsSize + kVlanTagSize);
    if (request.needed) request.start -= kVlanTagSize;
  }
  return Deliver(joined_, request, frame.gso);
}

DropReason LanePort::Deliver(absl::Span<const uint8_t> frame, const ChecksumRequest& request,
                             const Gso& gso) {
  // Behind the frames that wait.
  const bool direct = filled_ < target_.size() && !queue_->HasKept();
  eoib_frame metadata{};
  metadata.length = static_cast<uint32_t>(frame.size());
  if (direct && RoomIn(target_[filled_]) < frame.size()) return DropReason::kPortTooLarge;
  if (request.needed && !options_.unfinished_checksums) {
    // The forwarder's frame stays as it is, because it may go to other ports.
    if (frame.data() != joined_.data()) joined_.assign(frame.begin(), frame.end());
    CompleteChecksum(absl::MakeSpan(joined_), request);
    frame = joined_;
    metadata.flags = EOIB_FRAME_CHECKSUM_GOOD;
  } else if (request.needed) {
    metadata.flags = EOIB_FRAME_CHECKSUM_NEEDED | EOIB_FRAME_CHECKSUM_GOOD;
    metadata.checksum_start = request.start;
    metadata.checksum_offset = request.offset;
  }
  if (gso.type != GsoType::kNone) {
    metadata.segment_size = gso.size;
    metadata.segment_type = gso.is_tcp() ? EOIB_SEGMENT_TCP : EOIB_SEGMENT_UDP;
  }
  if (!direct) return queue_->Keep(frame, metadata) ? DropReason::kNone : DropReason::kPortFull;
  Put(frame, metadata, &target_[filled_++]);
  return DropReason::kNone;
}

// ---- Frames of the program ----------------------------------------------------------------------

size_t LanePort::Send(absl::Span<const eoib_frame> frames) {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return 0;
  Forwarder* const forwarder = lane_->forwarder;
  forwarder->Housekeep();
  source_ = frames;
  taken_ = 0;
  while (taken_ < frames.size()) {
    const size_t before = taken_;
    if (forwarder->IsCongested()) forwarder->Housekeep();
    if (forwarder->IsCongested()) break;
    forwarder->PollPort(index_);
    if (taken_ == before) break;  // no buffers
  }
  source_ = {};
  return taken_;
}

size_t LanePort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                         PortReceiveCounts* counts) noexcept {
  const PieceLayout layout(mtu);
  size_t received = 0, buffers = 0;
  for (; taken_ < source_.size() && received < out.size() && buffers < out.size(); ++taken_) {
    const eoib_frame& from = source_[taken_];
    if (from.length < kEthernetHeaderSize || RoomIn(from) < from.length) {
      ++counts->runt;
    } else if (from.length > layout.Largest()) {
      ++counts->too_large;
    } else if (IsGso(from) &&
               (from.segment_size == 0 || (from.flags & EOIB_FRAME_CHECKSUM_NEEDED) == 0)) {
      ++counts->bad_checksum_request;
    } else {
      const absl::optional<Frame> frame = Take(pool, layout, from);
      if (!frame.has_value()) break;
      buffers += frame->buffers;
      out[received++] = *frame;
    }
  }
  return received;
}

// Nothing if the pool has too few buffers.
absl::optional<Frame> LanePort::Take(BufferPool* pool, const PieceLayout& layout,
                                     const eoib_frame& from) const {
  const bool whole = !IsGso(from) && from.length <= layout.datagram;
  Frame frame;
  frame.buffer = pool->Allocate();
  if (frame.buffer.IsNone()) return absl::nullopt;
  frame.data = pool->Frame(frame.buffer);
  frame.length = whole ? from.length : std::min(from.length, layout.first);
  if ((from.flags & EOIB_FRAME_CHECKSUM_NEEDED) != 0)
    frame.checksum = {true, from.checksum_start, from.checksum_offset};
  if (IsGso(from)) {
    frame.gso = {from.segment_type == EOIB_SEGMENT_TCP ? GsoType::kTcp : GsoType::kUdp,
                 from.segment_size};
  }
  Gatherer gatherer(from);
  gatherer.Read(frame.data, frame.length);
  BufferId last = frame.buffer;
  for (uint32_t at = frame.length; at < from.length; ++frame.buffers) {
    const BufferId buffer = pool->Allocate();
    if (buffer.IsNone()) {
      pool->Free(frame.buffer);
      return absl::nullopt;
    }
    const uint32_t size = std::min(from.length - at, layout.piece);
    gatherer.Read(pool->Frame(buffer), size);
    pool->Append(last, buffer, pool->Frame(buffer), size);
    last = buffer;
    at += size;
  }
  frame.rest = from.length - frame.length;
  return frame;
}

// ---- Waiting ------------------------------------------------------------------------------------

bool LanePort::Arm() {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return true;
  Forwarder* const forwarder = lane_->forwarder;
  const bool armed = forwarder->endpoint() == nullptr || forwarder->endpoint()->Arm().ok();
  // An arrival between the last poll and arming raises no event. Further ones stay in the queue for
  // the next burst.
  const bool more = forwarder->PollFabric(1);
  forwarder->Housekeep();
  return armed && !more;
}

void LanePort::DrainEvents() {
  absl::MutexLock lock(&lane_->mutex);
  if (attached_ && lane_->forwarder->endpoint() != nullptr)
    lane_->forwarder->endpoint()->DrainEvents();
}

}  // namespace eoib
