#include "control/embed/burst_port.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

constexpr int kBatchesABurst = 4;  // from the queue pair, in one call of the program

size_t RoomIn(const eoib_frame& frame) {
  size_t room = 0;
  for (uint32_t i = 0; i < frame.iov_count; ++i) room += frame.iov[i].iov_len;
  return room;
}

void Scatter(absl::Span<const uint8_t> bytes, const eoib_frame& to) {
  for (uint32_t i = 0; !bytes.empty(); ++i) {
    const size_t part = std::min(bytes.size(), to.iov[i].iov_len);
    std::memcpy(to.iov[i].iov_base, bytes.data(), part);
    bytes.remove_prefix(part);
  }
}

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

void SetMetadata(const eoib_frame& from, eoib_frame* to) {
  const iovec* const iov = to->iov;
  const uint32_t count = to->iov_count;
  *to = from;
  to->iov = iov;
  to->iov_count = count;
}

bool IsGso(const eoib_frame& frame) { return frame.segment_type != EOIB_SEGMENT_NONE; }

}  // namespace

absl::StatusOr<std::unique_ptr<BurstPort>> BurstPort::Create(const Options& options) {
  auto port = std::unique_ptr<BurstPort>(new BurstPort(options));
  port->wait_.reset(epoll_create1(EPOLL_CLOEXEC));
  port->bell_ = MakeEventFd();
  port->state_event_ = MakeEventFd();
  if (!port->wait_.valid() || !port->bell_.valid() || !port->state_event_.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("make the descriptors of a vPort: ", strerror(errno)));
  }
  if (absl::Status status = port->WatchEndpoint(port->bell_.get()); !status.ok()) return status;
  port->backlog_.resize(kBacklog);
  return port;
}

void BurstPort::Attach(std::shared_ptr<Lane> lane, uint32_t index) {
  EOIB_CHECK(lane_ == nullptr);
  lane_ = std::move(lane);
  index_ = index;
  attached_ = true;
}

void BurstPort::Detach() { attached_ = false; }

absl::Status BurstPort::WatchEndpoint(int fd) {
  epoll_event request{};
  request.events = EPOLLIN;
  if (epoll_ctl(wait_.get(), EPOLL_CTL_ADD, fd, &request) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("watch descriptor ", fd, " for a vPort: ", strerror(errno)));
}

// ---- State ------------------------------------------------------------------------------------------------------------

void BurstPort::SetMtu(uint32_t mtu) {
  if (mtu_.exchange(mtu) != mtu) ChangeState();
}

void BurstPort::SetLink(bool up) {
  if (carrier_.exchange(up) == up) return;
  if (up) carrier_resets_.fetch_add(1);
  ChangeState();
}

void BurstPort::ChangeState() {
  changes_.fetch_add(1);
  RingEventFd(state_event_.get());
}

eoib_state BurstPort::State() {
  ClearEventFd(state_event_.get());
  return {sizeof(eoib_state), carrier_.load() ? 1 : 0, mtu_.load(), carrier_resets_.load(), changes_.load()};
}

eoib_stats BurstPort::Stats() const {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return {};
  const PortCounters& counters = *lane_->forwarder->ports()[index_].counters;
  return {sizeof(eoib_stats),           counters.received.value(),          counters.received_bytes.value(),
          counters.transmitted.value(), counters.transmitted_bytes.value(), counters.dropped.value()};
}

void BurstPort::VisitCounters(absl::FunctionRef<void(const char* name, uint64_t value)> visit) const {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return;
  const ForwarderCounters& counters = lane_->forwarder->counters();
#define EOIB_X(member, help) visit(#member, counters.member.value());
  EOIB_FORWARDER_COUNTERS(EOIB_X)
#undef EOIB_X
  for (size_t i = 0; i < kDropReasons; ++i) {
    visit(absl::StrCat("drop_", kDropReasonInfo[i].label).c_str(), counters.drops[i].value());
  }
}

// ---- Frames for the program -------------------------------------------------------------------------------------------

size_t BurstPort::ReceiveBurst(absl::Span<eoib_frame> frames) {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return 0;
  Forwarder* const forwarder = lane_->forwarder;
  lane_->polled = true;
  if (std::exchange(armed_, false)) {
    ClearEventFd(bell_.get());
    if (forwarder->endpoint() != nullptr) forwarder->endpoint()->DrainEvents();
  }
  size_t count = 0;
  while (count < frames.size() && GiveKept(frames, &count)) {
  }
  target_ = frames;
  filled_ = count;
  for (int batches = 0; batches < kBatchesABurst && filled_ < frames.size() && forwarder->PollFabric(); ++batches) {
  }
  forwarder->Housekeep();
  target_ = {};
  return filled_;
}

// Moves the oldest frame of the backlog into the burst. False if there is none.
bool BurstPort::GiveKept(absl::Span<eoib_frame> frames, size_t* count) {
  if (backlog_count_ == 0) return false;
  const Kept& kept = backlog_[backlog_first_];
  backlog_first_ = (backlog_first_ + 1) % kBacklog;
  --backlog_count_;
  eoib_frame& to = frames[*count];
  if (RoomIn(to) < kept.metadata.length) {
    lane_->forwarder->ports()[index_].counters->dropped.Add();
    return true;
  }
  Scatter(absl::MakeConstSpan(kept.bytes).first(kept.metadata.length), to);
  SetMetadata(kept.metadata, &to);
  ++*count;
  return true;
}

DropReason BurstPort::Transmit(const Frame& frame, bool strip_tag) noexcept {
  if (!strip_tag) return Deliver(frame.bytes(), frame.checksum, frame.gso);
  joined_.assign(frame.data, frame.data + kMacsSize);
  joined_.insert(joined_.end(), frame.data + kMacsSize + kVlanTagSize, frame.data + frame.length);
  ChecksumRequest request = frame.checksum;
  if (request.needed) request.start -= kVlanTagSize;
  return Deliver(joined_, request, frame.gso);
}

DropReason BurstPort::TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept {
  joined_.clear();
  VisitPieces(pool, frame, [this](absl::Span<uint8_t> piece) { joined_.insert(joined_.end(), piece.begin(), piece.end()); });
  ChecksumRequest request = frame.checksum;
  if (strip_tag) {
    joined_.erase(joined_.begin() + kMacsSize, joined_.begin() + kMacsSize + kVlanTagSize);
    if (request.needed) request.start -= kVlanTagSize;
  }
  return Deliver(joined_, request, frame.gso);
}

DropReason BurstPort::Deliver(absl::Span<const uint8_t> frame, const ChecksumRequest& request, const Gso& gso) {
  const bool direct = filled_ < target_.size() && backlog_count_ == 0;
  if (!direct && backlog_count_ == kBacklog) return DropReason::kPortFull;
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
  if (direct) {
    Scatter(frame, target_[filled_]);
    SetMetadata(metadata, &target_[filled_++]);
    return DropReason::kNone;
  }
  Kept& kept = backlog_[(backlog_first_ + backlog_count_++) % kBacklog];
  kept.bytes.assign(frame.begin(), frame.end());
  kept.metadata = metadata;
  if (armed_ && backlog_count_ == 1) RingEventFd(bell_.get());
  return DropReason::kNone;
}

// ---- Frames of the program --------------------------------------------------------------------------------------------

size_t BurstPort::SendBurst(absl::Span<const eoib_frame> frames) {
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

size_t BurstPort::Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept {
  const PieceLayout layout(mtu);
  size_t received = 0, buffers = 0;
  for (; taken_ < source_.size() && received < out.size() && buffers < out.size(); ++taken_) {
    const eoib_frame& from = source_[taken_];
    if (from.length < kEthernetHeaderSize || RoomIn(from) < from.length) {
      ++counts->runt;
    } else if (from.length > layout.Largest()) {
      ++counts->too_large;
    } else if (IsGso(from) && (from.segment_size == 0 || (from.flags & EOIB_FRAME_CHECKSUM_NEEDED) == 0)) {
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
absl::optional<Frame> BurstPort::Take(BufferPool* pool, const PieceLayout& layout, const eoib_frame& from) const {
  const bool whole = !IsGso(from) && from.length <= layout.datagram;
  Frame frame;
  frame.buffer = pool->Allocate();
  if (frame.buffer.IsNone()) return absl::nullopt;
  frame.data = pool->Frame(frame.buffer);
  frame.length = whole ? from.length : std::min(from.length, layout.first);
  if ((from.flags & EOIB_FRAME_CHECKSUM_NEEDED) != 0) frame.checksum = {true, from.checksum_start, from.checksum_offset};
  if (IsGso(from)) {
    frame.gso = {from.segment_type == EOIB_SEGMENT_TCP ? GsoType::kTcp : GsoType::kUdp, from.segment_size};
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

// ---- Waiting ----------------------------------------------------------------------------------------------------------

bool BurstPort::Arm() {
  absl::MutexLock lock(&lane_->mutex);
  if (!attached_) return false;
  Forwarder* const forwarder = lane_->forwarder;
  armed_ = true;
  const bool failed = forwarder->endpoint() != nullptr && !forwarder->endpoint()->Arm().ok();
  // An arrival between the last poll and arming raises no event.
  forwarder->PollFabric();
  forwarder->Housekeep();
  return failed || backlog_count_ != 0;
}

}  // namespace eoib
