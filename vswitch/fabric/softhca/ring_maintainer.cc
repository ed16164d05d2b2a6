#include "vswitch/fabric/softhca/ring_maintainer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace eoib::softhca {
namespace {

constexpr absl::Duration kParkedTick = absl::Milliseconds(1);
constexpr absl::Duration kEndingTick = absl::Milliseconds(10);

}  // namespace

void RingMaintainer::Stop() {
  if (!background_.joinable()) return;
  {
    absl::MutexLock lock(mutex_);
    stopping_ = true;
  }
  fds_->WakeBackground();
  background_.join();
}

// ---- Making rings.

void RingMaintainer::RunRequests() {
  LinkRequests requests;
  {
    absl::MutexLock lock(mutex_);
    requests = path_->outbound().TakeRequests();
  }
  for (const Lid destination : requests.rings) OpenRingTo(destination);
  for (const uint64_t ring : requests.closes) link_->CloseRing(ring);
  if (requests.loopback_closes.empty()) return;
  absl::MutexLock lock(mutex_);
  for (const uint64_t ring : requests.loopback_closes) {
    if (InboundRing* inbound = path_->inbound().Find(ring, /*loopback=*/true))
      path_->inbound().Close(inbound);
  }
  fds_->WakeBackground();
}

RingSender* RingMaintainer::FindRequester(Lid destination) {
  RingSender* sender = path_->outbound().Find(destination);
  return sender != nullptr && sender->wanted_capacity() != 0 ? sender : nullptr;
}

// System calls are made without the mutex, and the sender is looked up again after each.
void RingMaintainer::OpenRingTo(Lid destination) {
  uint64_t capacity;
  {
    absl::MutexLock lock(mutex_);
    RingSender* sender = FindRequester(destination);
    if (sender == nullptr) return;
    capacity = sender->wanted_capacity();
    if (destination == path_->queue_pairs().config().lid) capacity = 0;
  }
  if (capacity == 0) return OpenLoopback(destination);
  RingEnd end;
  std::shared_ptr<RingMemory> memory;
  UniqueFd liveness;
  absl::Status status = MakeRing(capacity, &end, &memory, &liveness);
  uint64_t request;
  {
    absl::MutexLock lock(mutex_);
    RingSender* sender = FindRequester(destination);
    if (sender == nullptr) return;
    if (!status.ok()) {
      ++path_->counters().ring_failures;
      return sender->OnRefused();
    }
    request = next_request_++;
    sender->BeginOpening(request, std::move(memory), std::move(liveness));
  }
  status = link_->OpenRing(request, destination, std::move(end));
  if (status.ok()) return;
  absl::MutexLock lock(mutex_);
  if (RingSender* sender = path_->outbound().FindByRequest(request)) sender->OnRefused();
}

// Makes this port's ring to itself, without the subnet.
void RingMaintainer::OpenLoopback(Lid destination) {
  absl::MutexLock lock(mutex_);
  RingSender* sender = FindRequester(destination);
  if (sender == nullptr) return;
  std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(sender->wanted_capacity());
  memory->set_space(fds_->space);
  const uint64_t id = next_request_++;
  auto inbound = std::make_unique<InboundRing>(id, path_->Identity(), memory);
  inbound->loopback = true;
  sender->BeginOpening(id, std::move(memory), UniqueFd());
  path_->AddInbound(std::move(inbound));
  sender->OnOpened(id, fds_->doorbell, /*loopback=*/true);
}

absl::Status RingMaintainer::MakeRing(uint64_t capacity, RingEnd* end,
                                      std::shared_ptr<RingMemory>* memory, UniqueFd* liveness) {
  end->capacity = capacity;
  if (link_->in_process()) {
    *memory = end->local = RingMemory::CreateLocal(capacity);
    (*memory)->set_space(fds_->space);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<RingMemory>> shared = RingMemory::CreateShared(capacity);
  if (!shared.ok()) return shared.status();
  *memory = std::move(*shared);
  int ends[2];
  // Each end of the pipe shows that the other has died. A socket pair would too, but its kernel
  // garbage collection delays a process that passes on sockets, fabricd above all, while two
  // thousand are in flight.
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  end->liveness = UniqueFd(ends[0]);
  *liveness = UniqueFd(ends[1]);
  end->space = UniqueFd(fcntl(fds_->space->get(), F_DUPFD_CLOEXEC, 0));
  const bool released = (*memory)->ReleaseFds(&end->data, &end->index);
  if (!released || !end->space.valid()) return absl::ErrnoToStatus(errno, "duplicate a descriptor");
  return absl::OkStatus();
}

// ---- The background thread.

void RingMaintainer::Background() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  Wait wait;
  while (Maintain(&wait)) {
    RunRequests();
    Sleep(wait);
  }
}

bool RingMaintainer::Maintain(Wait* wait) {
  std::vector<std::unique_ptr<InboundRing>> finished;  // destroyed without the mutex
  absl::MutexLock lock(mutex_);
  if (stopping_) return false;
  CloseReleasedRings();
  finished = path_->inbound().TakeFinished();
  for (const auto& ring : finished) {
    path_->LeaveRing(ring.get());
    if (!ring->corrupt || ring->loopback) continue;
    ++path_->counters().corrupt_rings;
    path_->outbound().RequestClose(ring->id);
  }
  path_->outbound().Maintain();
  // A delayed datagram may be due, or a producer may have died before it rang.
  const bool arms_again = path_->BackgroundArms();
  path_->StoreCounters();
  const absl::Time now = clock_->Now();
  wait->space = path_->outbound().parked() != 0;
  wait->time =
      std::min(SleepTime(now), arms_again ? DatagramPath::kArmTick : absl::InfiniteDuration());
  path_->BackgroundSleeps(now + wait->time, path_->outbound().is_busy());
  WatchPeers(&wait->rings);
  return true;
}

// Closes released rings, also those that no worker drains.
void RingMaintainer::CloseReleasedRings() {
  path_->inbound().ForEach([path = path_](InboundRing* ring) {
    if (ring->consumer.Released()) path->inbound().Close(ring);
  });
}

absl::Duration RingMaintainer::SleepTime(absl::Time now) const {
  const Outbound& outbound = path_->outbound();
  absl::Duration time = path_->NextDue() - now;
  if (outbound.HasRings()) time = std::min(time, idle_close_ / 4);
  if (outbound.has_ending()) time = std::min(time, kEndingTick);
  if (outbound.parked() != 0) time = std::min(time, kParkedTick);
  return std::max(time, absl::ZeroDuration());
}

void RingMaintainer::WatchPeers(std::vector<WatchedRing>* watched) {
  watched->clear();
  path_->outbound().ForEach([watched](const RingSender* sender) {
    if (sender->liveness_fd() >= 0)
      watched->push_back({sender->liveness_fd(), sender->ring(), false});
  });
  path_->inbound().ForEach([watched](const InboundRing* ring) {
    if (ring->liveness.valid() && !ring->closing)
      watched->push_back({ring->liveness.get(), ring->id, true});
  });
}

// Another thread may have closed these descriptors. Then PeerDied finds no such ring, and the next
// turn builds the list again.
void RingMaintainer::Sleep(const Wait& wait) {
  std::vector<pollfd> fds = {{fds_->background.get(), POLLIN, 0},
                             {wait.space ? fds_->space->get() : -1, POLLIN, 0}};
  const size_t before_rings = fds.size();
  for (const WatchedRing& each : wait.rings) fds.push_back({each.fd, POLLIN, 0});
  const timespec time = absl::ToTimespec(wait.time);
  if (ppoll(fds.data(), fds.size(), wait.time == absl::InfiniteDuration() ? nullptr : &time,
            nullptr) <= 0)
    return;
  if (fds[0].revents != 0) ClearEventFd(fds_->background.get());
  if (fds[1].revents != 0) ClearEventFd(fds_->space->get());
  // Any event means that the peer has ended; it sends nothing here.
  for (size_t i = 0; i < wait.rings.size(); ++i) {
    if (fds[before_rings + i].revents != 0) PeerDied(wait.rings[i]);
  }
}

void RingMaintainer::PeerDied(const WatchedRing& watched) {
  absl::MutexLock lock(mutex_);
  path_->outbound().RequestClose(watched.ring);
  if (watched.inbound) {
    if (InboundRing* inbound = path_->inbound().Find(watched.ring)) path_->inbound().Close(inbound);
  } else if (RingSender* sender = path_->outbound().FindByRing(watched.ring)) {
    sender->OnClosed();
  }
}

}  // namespace eoib::softhca
