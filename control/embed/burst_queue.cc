#include "control/embed/burst_queue.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"

namespace eoib {
namespace {

void Scatter(absl::Span<const uint8_t> bytes, const eoib_frame& to) {
  for (uint32_t i = 0; !bytes.empty(); ++i) {
    const size_t part = std::min(bytes.size(), to.iov[i].iov_len);
    std::memcpy(to.iov[i].iov_base, bytes.data(), part);
    bytes.remove_prefix(part);
  }
}

}  // namespace

size_t RoomIn(const eoib_frame& frame) {
  size_t room = 0;
  for (uint32_t i = 0; i < frame.iov_count; ++i) room += frame.iov[i].iov_len;
  return room;
}

void Put(absl::Span<const uint8_t> bytes, const eoib_frame& metadata, eoib_frame* to) {
  Scatter(bytes, *to);
  const iovec* const iov = to->iov;
  const uint32_t count = to->iov_count;
  *to = metadata;
  to->iov = iov;
  to->iov_count = count;
}

FrameRing::Pushed FrameRing::Push(absl::Span<const uint8_t> bytes, const eoib_frame& metadata) {
  absl::MutexLock lock(&mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  if (count == kCapacity) return Pushed::kFull;
  Kept& kept = frames_[(first_ + count) % kCapacity];
  kept.bytes.assign(bytes.begin(), bytes.end());
  kept.metadata = metadata;
  count_.store(count + 1);
  return count == 0 ? Pushed::kFirst : Pushed::kFurther;
}

FrameRing::Taken FrameRing::Take(eoib_frame* to) {
  if (empty()) return Taken::kNone;
  absl::MutexLock lock(&mutex_);
  const Kept& kept = frames_[first_];
  const bool fits = RoomIn(*to) >= kept.bytes.size();
  if (fits) Put(kept.bytes, kept.metadata, to);
  first_ = (first_ + 1) % kCapacity;
  count_.store(count_.load(std::memory_order_relaxed) - 1);
  return fits ? Taken::kFrame : Taken::kTooLarge;
}

absl::StatusOr<std::unique_ptr<BurstQueue>> BurstQueue::Create() {
  auto queue = std::unique_ptr<BurstQueue>(new BurstQueue());
  queue->wait_.reset(epoll_create1(EPOLL_CLOEXEC));
  queue->bell_ = MakeEventFd();
  if (!queue->wait_.valid() || !queue->bell_.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("make the descriptors of a vPort: ", strerror(errno)));
  }
  if (absl::Status status = queue->Watch(queue->bell_.get()); !status.ok()) return status;
  return queue;
}

void BurstQueue::Add(LanePort* lane) {
  const size_t count = lane_count_.load();
  EOIB_CHECK(count < lanes_.size());
  lanes_[count] = lane;
  lane_count_.store(count + 1, std::memory_order_release);
}

absl::Status BurstQueue::Watch(int fd) {
  epoll_event request{};
  request.events = EPOLLIN;
  if (epoll_ctl(wait_.get(), EPOLL_CTL_ADD, fd, &request) == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("watch descriptor ", fd, " for a vPort: ", strerror(errno)));
}

// ---- Frames for the program ---------------------------------------------------------------------

size_t BurstQueue::ReceiveBurst(absl::Span<eoib_frame> frames) {
  if (armed_.load(std::memory_order_relaxed) && armed_.exchange(false)) {
    ClearEventFd(bell_.get());
    for (LanePort* const lane : lanes()) lane->DrainEvents();
  }
  size_t count = ring_.empty() ? 0 : TakeKept(frames);
  for (LanePort* const lane : lanes()) count += lane->Receive(frames.subspan(count));
  return count;
}

size_t BurstQueue::TakeKept(absl::Span<eoib_frame> frames) {
  size_t count = 0, lost = 0;
  while (count < frames.size()) {
    const FrameRing::Taken taken = ring_.Take(&frames[count]);
    if (taken == FrameRing::Taken::kNone) break;
    ++(taken == FrameRing::Taken::kFrame ? count : lost);
  }
  if (lost != 0) lanes().front()->CountLost(lost);
  return count;
}

bool BurstQueue::Keep(absl::Span<const uint8_t> bytes, const eoib_frame& metadata) {
  const FrameRing::Pushed pushed = ring_.Push(bytes, metadata);
  if (pushed == FrameRing::Pushed::kFirst && armed_.load()) RingEventFd(bell_.get());
  return pushed != FrameRing::Pushed::kFull;
}

// ---- Frames of the program ----------------------------------------------------------------------

size_t BurstQueue::SendBurst(absl::Span<const eoib_frame> frames) {
  return lanes().empty() ? 0 : lanes().front()->Send(frames);
}

// ---- Waiting ------------------------------------------------------------------------------------

bool BurstQueue::Arm() {
  if (!ring_.empty()) return true;
  armed_.store(true);
  bool wakes = true;
  for (LanePort* const lane : lanes()) wakes &= lane->Arm();
  return !wakes || !ring_.empty();
}

}  // namespace eoib
