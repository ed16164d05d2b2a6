// SoftPort, subnet side: what the subnet reports, the rings that the port makes, and the background thread. The data side is
// in soft_port.cc.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/fabric/softhca/soft_port.h"

namespace eoib::softhca {
namespace {

constexpr absl::Duration kParkedTick = absl::Milliseconds(1);
constexpr absl::Duration kEndingTick = absl::Milliseconds(10);

}  // namespace

// ---- Calls from the subnet.

SourceIdentity SoftPort::OwnIdentity() const {
  const PortConfig& config = queue_pairs_.config();
  return {config.lid, config.gid, config.pkeys, config.qpns};
}

void SoftPort::OnPortConfig(const PortConfig& config) {
  absl::MutexLock lock(&mutex_);
  const PortConfig before = queue_pairs_.config();
  queue_pairs_.set_config(config);
  if (std::exchange(configured_, true)) TellChanges(before, config);
  inbound_.ForEach([this](InboundRing* ring) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (ring->loopback) ring->source = OwnIdentity();
  });
}

void SoftPort::TellChanges(const PortConfig& before, const PortConfig& after) {
  if (before.lid != after.lid) MoveToLid(before.lid, after.lid);
  if (before.active && !after.active) Raise(IBV_EVENT_PORT_ERR);
  if (!before.active && after.active) Raise(IBV_EVENT_PORT_ACTIVE);
  if (before.lid != after.lid) Raise(IBV_EVENT_LID_CHANGE);
  if (before.gid != after.gid) Raise(IBV_EVENT_GID_CHANGE);
  if (before.pkeys != after.pkeys) Raise(IBV_EVENT_PKEY_CHANGE);
  if (before.sm_lid != after.sm_lid) Raise(IBV_EVENT_SM_CHANGE);
  // Peers reject datagrams from QPNs outside the new range, so the old queue pairs are lost.
  if (before.qpns.first != after.qpns.first) RaiseForQueuePairs(IBV_EVENT_QP_FATAL);
  const bool restarted = std::exchange(subnet_lost_, false);
  if (restarted || before.reregistrations != after.reregistrations) Raise(IBV_EVENT_CLIENT_REREGISTER);
  if (!restarted) return;
  // A restarted subnet knows neither our subscriptions nor our rings, and would not report changes of identity for unknown
  // rings.
  outbound_.ForEach([](RingSender* sender) { sender->Renew(); });
  inbound_.ForEach([now = clock_->Now()](InboundRing* ring) {
    if (!ring->loopback) ring->unknown_since = now;
  });
  Kick();
}

// Closes released rings, also those that no worker drains, and rings that a restarted subnet still does not know: a correct
// peer has replaced them by now, and another one could keep an outdated identity.
void SoftPort::CloseEndedRings() {
  const absl::Time now = clock_->Now();
  inbound_.ForEach([this, now](InboundRing* ring) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const bool is_unknown = now - ring->unknown_since >= options_.unknown_ring_patience;
    if (is_unknown || ring->consumer.Released()) inbound_.Close(ring);
  });
}

// Datagrams to the old LID, in existing rings, must not arrive here. Peers find the new LID and make rings to it.
void SoftPort::MoveToLid(Lid before, Lid after) {
  outbound_.Drop(before);
  outbound_.Drop(after);
  inbound_.ForEach([this](InboundRing* ring) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    inbound_.Close(ring);
    if (!ring->loopback) outbound_.WishToClose(ring->id);
  });
  Kick();
}

void SoftPort::OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) {
  std::shared_ptr<RingMemory> memory = end.local;
  bool usable = memory != nullptr;
  if (!usable) {
    absl::StatusOr<std::shared_ptr<RingMemory>> mapped = RingMemory::Map(end.data.get(), end.index.get(), end.capacity);
    usable = mapped.ok();
    if (usable) memory = std::move(*mapped);
  }
  absl::MutexLock lock(&mutex_);
  if (!usable) {
    ++(end.data.valid() ? counters_.corrupt_rings : counters_.ring_failures);
    outbound_.WishToClose(ring);
    Kick();
    return;
  }
  // A peer that is back often asks first (ARP), and needs an answer at once.
  if (RingSender* sender = outbound_.Find(source.lid)) sender->OnPeerSeen();
  auto inbound = std::make_unique<InboundRing>(ring, source, std::move(memory));
  inbound->space = std::move(end.space);
  inbound->liveness = std::move(end.liveness);
  counters_.OnRingOf(SubnetOfRing(ring));
  AddInbound(std::move(inbound));
}

void SoftPort::AddInbound(std::unique_ptr<InboundRing> ring) {
  const uint64_t id = ring->id;
  const bool loopback = ring->loopback;
  if (!inbound_.Add(std::move(ring)) && !loopback) outbound_.WishToClose(id);
  // Sleeping receivers have armed the former rings only.
  if (queue_pairs_.receiver_armed()) WakeReceivers(/*has_records=*/false);
  Kick();
}

void SoftPort::OnSourceChanged(uint64_t ring, const SourceIdentity& source) {
  absl::MutexLock lock(&mutex_);
  if (InboundRing* inbound = inbound_.Find(ring)) inbound->source = source;
}

void SoftPort::OnRingClosed(uint64_t ring) {
  absl::MutexLock lock(&mutex_);
  if (InboundRing* inbound = inbound_.Find(ring)) inbound_.Close(inbound);
  if (RingSender* sender = outbound_.FindByRing(ring)) sender->OnClosed();
  Kick();
}

void SoftPort::OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) {
  absl::MutexLock lock(&mutex_);
  RingSender* sender = outbound_.FindByRequest(request);
  if (sender != nullptr && doorbell != nullptr) {
    counters_.OnRingOf(SubnetOfRing(ring));
    sender->OnOpened(ring, std::move(doorbell));
  } else {
    outbound_.WishToClose(ring);  // the request was given up, or its destination dropped
    counters_.ring_failures += doorbell == nullptr;
    if (sender != nullptr) sender->OnRefused();
  }
  Kick();
}

void SoftPort::OnRingRefused(uint64_t request, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (RingSender* sender = outbound_.FindByRequest(request)) sender->OnRefused();
}

void SoftPort::OnGroup(Mlid mlid, const std::vector<Lid>& members) {
  absl::MutexLock lock(&mutex_);
  if (members.empty()) {
    groups_.erase(mlid);
  } else {
    groups_[mlid] = members;
  }
}

void SoftPort::OnFaults(const std::vector<FaultRule>& rules) {
  absl::MutexLock lock(&mutex_);
  faults_.SetRules(rules);
  Kick();
}

void SoftPort::OnSubnetLost() {
  absl::MutexLock lock(&mutex_);
  subnet_lost_ = true;
  outbound_.ForEach([](RingSender* sender) {
    if (sender->opening()) sender->OnRefused();
  });
}

// ---- Making rings.

void SoftPort::RunLinkWork() {
  LinkWishes wishes;
  {
    absl::MutexLock lock(&mutex_);
    wishes = outbound_.TakeWishes();
  }
  for (const Lid destination : wishes.rings) OpenRingTo(destination);
  for (const uint64_t ring : wishes.closes) link_->CloseRing(ring);
  if (wishes.loopback_closes.empty()) return;
  absl::MutexLock lock(&mutex_);
  for (const uint64_t ring : wishes.loopback_closes) {
    if (InboundRing* inbound = inbound_.Find(ring, /*loopback=*/true)) inbound_.Close(inbound);
  }
  Kick();
}

RingSender* SoftPort::Wishing(Lid destination) {
  RingSender* sender = outbound_.Find(destination);
  return sender != nullptr && sender->wish() != 0 ? sender : nullptr;
}

// System calls are made without the mutex, and the sender is looked up again after each.
void SoftPort::OpenRingTo(Lid destination) {
  uint64_t capacity;
  {
    absl::MutexLock lock(&mutex_);
    RingSender* sender = Wishing(destination);
    if (sender == nullptr) return;
    capacity = sender->wish();
    if (destination == queue_pairs_.config().lid) capacity = 0;
  }
  if (capacity == 0) return OpenLoopback(destination);
  RingEnd end;
  std::shared_ptr<RingMemory> memory;
  UniqueFd liveness;
  absl::Status status = MakeRing(capacity, &end, &memory, &liveness);
  uint64_t request;
  {
    absl::MutexLock lock(&mutex_);
    RingSender* sender = Wishing(destination);
    if (sender == nullptr) return;
    if (!status.ok()) {
      ++counters_.ring_failures;
      return sender->OnRefused();
    }
    request = next_request_++;
    sender->BeginOpening(request, std::move(memory), std::move(liveness));
  }
  status = link_->OpenRing(request, destination, std::move(end));
  if (!status.ok()) OnRingRefused(request, std::string(status.message()));
}

// Makes this port's ring to itself, without the subnet.
void SoftPort::OpenLoopback(Lid destination) {
  absl::MutexLock lock(&mutex_);
  RingSender* sender = Wishing(destination);
  if (sender == nullptr) return;
  std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(sender->wish());
  memory->set_space(space_);
  const uint64_t id = next_request_++;
  auto inbound = std::make_unique<InboundRing>(id, OwnIdentity(), memory);
  inbound->loopback = true;
  sender->BeginOpening(id, std::move(memory), UniqueFd());
  AddInbound(std::move(inbound));
  sender->OnOpened(id, doorbell_, /*loopback=*/true);
}

absl::Status SoftPort::MakeRing(uint64_t capacity, RingEnd* end, std::shared_ptr<RingMemory>* memory, UniqueFd* liveness) {
  end->capacity = capacity;
  if (link_->in_process()) {
    *memory = end->local = RingMemory::CreateLocal(capacity);
    (*memory)->set_space(space_);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<RingMemory>> shared = RingMemory::CreateShared(capacity);
  if (!shared.ok()) return shared.status();
  *memory = std::move(*shared);
  int ends[2];
  // Each end of the pipe shows that the other has died. A socket pair would too, but its kernel garbage collection delays a
  // process that passes on sockets, fabricd above all, while two thousand are in flight.
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  end->liveness = UniqueFd(ends[0]);
  *liveness = UniqueFd(ends[1]);
  end->space = UniqueFd(fcntl(space_->get(), F_DUPFD_CLOEXEC, 0));
  const bool released = (*memory)->ReleaseFds(&end->data, &end->index);
  if (!released || !end->space.valid()) return absl::ErrnoToStatus(errno, "duplicate a descriptor");
  return absl::OkStatus();
}

// ---- The background thread.

void SoftPort::Background() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  Vigil vigil;
  while (BackgroundTurn(&vigil)) {
    RunLinkWork();
    Sleep(&vigil);
  }
}

// One round of maintenance. Returns false if the port ends.
bool SoftPort::BackgroundTurn(Vigil* vigil) {
  std::vector<std::unique_ptr<InboundRing>> finished;
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  CloseEndedRings();
  finished = inbound_.TakeFinished();
  for (const auto& ring : finished) {
    LeaveRing(ring.get());
    if (!ring->corrupt || ring->loopback) continue;
    ++counters_.corrupt_rings;
    outbound_.WishToClose(ring->id);
  }
  outbound_.Maintain();
  vigil->space = outbound_.parked() != 0;
  background_awake_ = outbound_.is_busy();
  // A delayed datagram may be due, or a producer may have died before it rang.
  if (queue_pairs_.receiver_armed()) WakeReceivers(/*has_records=*/false);
  counters_page_->Store(counters_);
  const absl::Time now = clock_->Now();
  vigil->time = SleepTime(now);
  background_wakes_ = now + vigil->time;
  WatchPeers(&vigil->rings);
  return true;
}

absl::Duration SoftPort::SleepTime(absl::Time now) {
  absl::Duration time = absl::InfiniteDuration();
  if (outbound_.HasRings()) time = options_.outbound.idle_close / 4;
  if (outbound_.has_ending()) time = std::min(time, kEndingTick);
  if (outbound_.parked() != 0) time = std::min(time, kParkedTick);
  // A receiver that was woken need not be woken again.
  if (queue_pairs_.receiver_armed() && !doorbell_rung_) time = std::min(time, faults_.next_due() - now);
  return std::max(time, absl::ZeroDuration());
}

void SoftPort::WatchPeers(std::vector<Watched>* watched) {
  watched->clear();
  outbound_.ForEach([watched](const RingSender* sender) {
    if (sender->liveness_fd() >= 0) watched->push_back({sender->liveness_fd(), sender->ring(), false});
  });
  inbound_.ForEach([watched](const InboundRing* ring) {
    if (ring->liveness.valid() && !ring->closing) watched->push_back({ring->liveness.get(), ring->id, true});
  });
}

// Another thread may have closed these descriptors. Then PeerDied finds no such ring, and the next turn builds the list again.
void SoftPort::Sleep(Vigil* vigil) {
  std::vector<pollfd> fds = {{kick_.get(), POLLIN, 0}, {vigil->space ? space_->get() : -1, POLLIN, 0}};
  const size_t before_rings = fds.size();
  for (const Watched& each : vigil->rings) fds.push_back({each.fd, POLLIN, 0});
  const timespec time = absl::ToTimespec(vigil->time);
  if (ppoll(fds.data(), fds.size(), vigil->time == absl::InfiniteDuration() ? nullptr : &time, nullptr) <= 0) return;
  if (fds[0].revents != 0) ClearEventFd(kick_.get());
  if (fds[1].revents != 0) ClearEventFd(space_->get());
  // Any event means that the peer has ended; it sends nothing here.
  for (size_t i = 0; i < vigil->rings.size(); ++i) {
    if (fds[before_rings + i].revents != 0) PeerDied(vigil->rings[i]);
  }
}

void SoftPort::PeerDied(const Watched& watched) {
  absl::MutexLock lock(&mutex_);
  outbound_.WishToClose(watched.ring);
  if (watched.inbound) {
    if (InboundRing* inbound = inbound_.Find(watched.ring)) inbound_.Close(inbound);
  } else if (RingSender* sender = outbound_.FindByRing(watched.ring)) {
    sender->OnClosed();
  }
}

}  // namespace eoib::softhca
