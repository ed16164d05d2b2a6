#include "vswitch/worker.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "vswitch/base/clock.h"

namespace eoib {

Worker::Worker() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  Watch(stop_event_.get(), {Source::kStop, 0, 0}).IgnoreError();
}

Worker::~Worker() { Stop(); }

absl::Status Worker::Watch(int fd, Event event) {
  events_.push_back(event);
  return WatchAs(fd, events_.size() - 1);
}

absl::Status Worker::WatchAs(int fd, size_t event) {
  epoll_event request{};
  request.events = EPOLLIN;
  request.data.u64 = event;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &request) != 0) {
    return absl::InternalError(absl::StrCat("watch descriptor ", fd, " in a worker: ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status Worker::Add(Forwarder* forwarder) {
  const uint32_t index = static_cast<uint32_t>(forwarders_.size());
  forwarders_.push_back(forwarder);
  events_.push_back({Source::kFabric, index, 0});
  absl::Status status = WatchEndpointOf(forwarder);
  status.Update(Watch(forwarder->injected()->fd(), {Source::kInjected, index, 0}));
  for (uint32_t port = 0; port < forwarder->ports().size(); ++port) {
    status.Update(Watch(forwarder->ports()[port].port->receive_fd(), {Source::kPort, index, port}));
  }
  return status;
}

// Closing the former endpoint removed its descriptor from the epoll set.
absl::Status Worker::WatchEndpointOf(const Forwarder* forwarder) {
  if (forwarder->endpoint() == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < events_.size(); ++i) {
    if (events_[i].source != Source::kFabric || forwarders_[events_[i].forwarder] != forwarder) continue;
    return WatchAs(forwarder->endpoint()->event_fd(), i);
  }
  return absl::NotFoundError("watch an endpoint in a worker: its forwarder was not added");
}

void Worker::Start() {
  stopping_.store(false);
  uint64_t stops;
  [[maybe_unused]] ssize_t got = read(stop_event_.get(), &stops, sizeof(stops));
  // Posts receives before control can announce this agent.
  for (Forwarder* forwarder : forwarders_) forwarder->PollFabric();
  thread_ = std::thread([this] { Run(); });
}

void Worker::Stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(stop_event_.get(), &one, sizeof(one));
  thread_.join();
}

void Worker::Run() {
  bool busy = true;
  for (uint64_t turn = 1; !stopping_.load(std::memory_order_relaxed); ++turn) {
    // The receive buffer of a socket would overflow while its program waits for this processor.
    if (turn % kTurnsBeforeYield == 0) sched_yield();
    if (!busy) {
      ArmFabrics();
      busy = PollFabrics();
      // A send that completed before the queue was armed raises no event, so reap it here.
      Housekeep();
    }
    busy = Turn(busy ? 0 : SleepMilliseconds()) || (busy && PollBeforeSleep());
  }
  for (Forwarder* forwarder : forwarders_) SendLast(forwarder);
}

// Waits for events for so long, and does what is due. Returns whether there was anything.
bool Worker::Turn(int sleep_milliseconds) {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), sleep_milliseconds);
  for (int i = 0; i < count; ++i) Handle(ready[i].data.u64);
  const bool any = PollFabrics() || count > 0;
  Housekeep();
  return any;
}

// Returns whether there was anything before the time was over.
bool Worker::PollBeforeSleep() {
  uint64_t bytes = 0;
  for (const Forwarder* forwarder : forwarders_) bytes += forwarder->BytesAtPorts();
  if (!polling_.OnIdle(bytes)) return false;
  const absl::Time end = clock_.Now() + PollingPolicy::kTime;
  while (!stopping_.load(std::memory_order_relaxed) && clock_.Now() < end) {
    if (Turn(0)) return true;
  }
  return false;
}

void Worker::Housekeep() {
  for (Forwarder* forwarder : forwarders_) forwarder->Housekeep();
  if (ABSL_PREDICT_FALSE(!paused_.empty())) ResumePorts();
}

// A port that is ready would end every sleep. The completions that make room in the send queue raise an event.
void Worker::PausePort(size_t event) {
  WatchPort(event, 0);
  paused_.push_back(event);
}

void Worker::ResumePorts() {
  std::erase_if(paused_, [this](size_t event) {
    if (forwarders_[events_[event].forwarder]->IsCongested()) return false;
    WatchPort(event, EPOLLIN);
    return true;
  });
}

void Worker::WatchPort(size_t event, uint32_t conditions) {
  const Event& port = events_[event];
  epoll_event request{};
  request.events = conditions;
  request.data.u64 = event;
  const int fd = forwarders_[port.forwarder]->ports()[port.port].port->receive_fd();
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &request);  // fails for an interface that was deleted (TapPort::StopIfDeleted)
}

// What control queued before Stop still leaves, unless the fabric does not take it in time.
void Worker::SendLast(Forwarder* forwarder) const {
  if (!forwarder->PollInjected()) return;
  while (forwarder->PollInjected()) {
  }
  const absl::Time deadline = clock_.Now() + kLastSends;
  while (forwarder->HasSendsInFlight() && clock_.Now() < deadline) forwarder->Housekeep();
}

void Worker::Handle(size_t index) {
  const Event& event = events_[index];
  switch (event.source) {
    case Source::kStop:
      break;
    case Source::kFabric:
      if (UdEndpoint* endpoint = forwarders_[event.forwarder]->endpoint(); endpoint != nullptr) endpoint->DrainEvents();
      break;
    case Source::kInjected:
      forwarders_[event.forwarder]->injected()->Clear();
      while (forwarders_[event.forwarder]->PollInjected()) {
      }
      break;
    case Source::kPort:
      if (ABSL_PREDICT_FALSE(forwarders_[event.forwarder]->IsCongested())) return PausePort(index);
      forwarders_[event.forwarder]->PollPort(event.port);
      break;
  }
}

bool Worker::PollFabrics() {
  bool any = false;
  for (Forwarder* forwarder : forwarders_) any |= forwarder->PollFabric();
  return any;
}

void Worker::ArmFabrics() {
  armed_ = true;
  for (Forwarder* forwarder : forwarders_) {
    UdEndpoint* endpoint = forwarder->endpoint();
    armed_ &= endpoint == nullptr || endpoint->Arm().ok();
  }
}

// Frames that wait have a deadline, and a queue that could not be armed must be polled.
int Worker::SleepMilliseconds() const {
  if (!armed_) return 1;
  for (const Forwarder* forwarder : forwarders_) {
    if (forwarder->HasWaitingFrames()) return 10;
  }
  return -1;
}

}  // namespace eoib
