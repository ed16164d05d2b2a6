#include "control/embed/burst_queue.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"

namespace eoib {

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
