#include "control/embed/polled_path.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "vswitch/base/check.h"

namespace eoib {
namespace {

constexpr int kInjectedATurn = 4;  // messages and frames of control
constexpr int kBatchesATurn = 4;   // from a queue pair

LanePort* PortAt(const Forwarder& forwarder, uint32_t port) {
  return static_cast<LanePort*>(forwarder.ports()[port].port);
}

}  // namespace

PolledPath::PolledPath(EventLoop* loop) : loop_(loop), look_at_(loop->Now() + kPatience) {
  timer_ = loop_->AddDeadline([this] { return look_at_; }, [this] { RunIdle(); });
}

PolledPath::~PolledPath() {
  Stop(absl::ZeroDuration());
  while (!lanes_.empty()) {
    // The mutex is the control thread's while it is stopped.
    Remove([lane = lanes_.back()]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return lane->forwarder; }());
  }
  loop_->Cancel(timer_);
}

PolledPath::Lanes::iterator PolledPath::Find(const Forwarder* forwarder) {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(),
                   [forwarder](const std::shared_ptr<Lane>& lane)
                       ABSL_NO_THREAD_SAFETY_ANALYSIS { return lane->forwarder == forwarder; });
  EOIB_CHECK(found != lanes_.end());
  return found;
}

absl::Status PolledPath::Add(Forwarder* forwarder, size_t) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  EOIB_CHECK(stopped_);
  lanes_.push_back(std::make_shared<Lane>());
  Lane* const lane = lanes_.back().get();
  lane->mutex.Lock();
  lane->forwarder = forwarder;
  absl::Status status = loop_->Add(forwarder->injected()->fd(), EPOLLIN,
                                   [this, lane](uint32_t) { RunInjected(lane); });
  for (uint32_t port = 0; port < forwarder->ports().size(); ++port) {
    if (forwarder->ports()[port].port != nullptr) status.Update(AttachPort(*forwarder, port));
  }
  return status;
}

void PolledPath::Remove(const Forwarder* forwarder) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  EOIB_CHECK(stopped_);
  DetachPorts(*forwarder);
  loop_->Remove(forwarder->injected()->fd());
  const auto found = Find(forwarder);
  (*found)->forwarder = nullptr;
  (*found)->mutex.Unlock();
  lanes_.erase(found);
}

absl::Status PolledPath::AttachPort(const Forwarder& forwarder, uint32_t port) {
  PortAt(forwarder, port)->Attach(*Find(&forwarder), port);
  if (forwarder.endpoint() == nullptr) return absl::OkStatus();
  return PortAt(forwarder, port)->WatchEndpoint(forwarder.endpoint()->event_fd());
}

void PolledPath::DetachPorts(const Forwarder& forwarder) {
  for (uint32_t port = 0; port < forwarder.ports().size(); ++port) {
    if (forwarder.ports()[port].port != nullptr) PortAt(forwarder, port)->Detach();
  }
}

absl::Status PolledPath::AddPort(absl::Span<Forwarder* const> queues, uint32_t port) {
  absl::Status status;
  for (const Forwarder* const forwarder : queues) status.Update(AttachPort(*forwarder, port));
  return status;
}

void PolledPath::RemovePort(absl::Span<Forwarder* const> queues, uint32_t port) {
  for (const Forwarder* const forwarder : queues) PortAt(*forwarder, port)->Detach();
}

// Closing the former endpoint removed its descriptor from the epoll sets.
absl::Status PolledPath::WatchEndpointOf(const Forwarder* forwarder) {
  absl::Status status;
  if (forwarder->endpoint() == nullptr) return status;
  for (const LocalPort& port : forwarder->ports()) {
    if (port.port != nullptr) {
      status.Update(
          static_cast<LanePort*>(port.port)->WatchEndpoint(forwarder->endpoint()->event_fd()));
    }
  }
  return status;
}

void PolledPath::Start() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!std::exchange(stopped_, false)) return;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    lane->forwarder->PollFabric();  // posts receives before control can announce this agent
    lane->forwarder->injected()->Notify();
    lane->mutex.Unlock();
  }
}

// Frames wait until the program receives them, so there is no backlog to work off.
void PolledPath::Stop(absl::Duration) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (std::exchange(stopped_, true)) return;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    lane->mutex.Lock();
    SendLast(lane->forwarder);
  }
}

void PolledPath::Abandon() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  loop_->Cancel(timer_);
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (!stopped_) lane->mutex.Lock();
    loop_->Remove(lane->forwarder->injected()->fd());
    DetachPorts(*lane->forwarder);
    lane->mutex.Unlock();
  }
  lanes_.clear();
}

void PolledPath::RunInjected(Lane* lane) {
  if (stopped_) return ClearStopped(lane);
  absl::MutexLock lock(&lane->mutex);
  InjectQueue* const injected = lane->forwarder->injected();
  injected->Clear();
  int polls = 0;
  while (polls < kInjectedATurn && lane->forwarder->PollInjected()) ++polls;
  if (polls == kInjectedATurn) injected->Notify();  // the loop calls us again
  lane->forwarder->Housekeep();
}

// Start notifies again.
void PolledPath::ClearStopped(Lane* lane) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  lane->forwarder->injected()->Clear();
}

void PolledPath::RunIdle() {
  look_at_ = loop_->Now() + kPatience;
  if (stopped_) return;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    absl::MutexLock lock(&lane->mutex);
    if (std::exchange(lane->polled, false)) continue;
    for (int batches = 0; batches < kBatchesATurn && lane->forwarder->PollFabric(); ++batches) {
    }
    lane->forwarder->Housekeep();
  }
}

}  // namespace eoib
