#include "vswitch/worker.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/data_path.h"

namespace eoib {

Worker::Worker(std::string name, bool realtime)
    : name_(std::move(name)),
      realtime_(realtime),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      watchdog_event_(MakeEventFd()) {
  Watch(stop_event_.get(), {Source::kStop}).IgnoreError();
  Watch(watchdog_event_.get(), {Source::kWatchdog}).IgnoreError();
}

Worker::~Worker() { Stop(); }

size_t Worker::NewEvent(const Event& event) {
  const auto unused = std::find_if(events_.begin(), events_.end(),
                                   [](const Event& e) { return e.source == Source::kUnused; });
  const size_t index = static_cast<size_t>(unused - events_.begin());
  if (unused == events_.end()) {
    events_.push_back(event);
  } else {
    *unused = event;
  }
  return index;
}

absl::Status Worker::Watch(int fd, const Event& event) { return WatchAs(fd, NewEvent(event)); }

absl::Status Worker::WatchAs(int fd, size_t event) {
  epoll_event request{};
  request.events = EPOLLIN;
  request.data.u64 = event;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &request) != 0) {
    return absl::InternalError(
        absl::StrCat("watch descriptor ", fd, " in a worker: ", strerror(errno)));
  }
  return absl::OkStatus();
}

void Worker::Forget(size_t event, int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);  // fails for an interface that was deleted
  events_[event] = {};
  std::erase(paused_, event);
}

absl::Status Worker::Add(Forwarder* forwarder) {
  forwarders_.push_back(forwarder);
  NewEvent({Source::kFabric, forwarder});
  absl::Status status = WatchEndpointOf(forwarder);
  status.Update(Watch(forwarder->injected()->fd(), {Source::kInjected, forwarder}));
  for (uint32_t port = 0; port < forwarder->ports().size(); ++port) {
    if (forwarder->ports()[port].port != nullptr) status.Update(AddPort(forwarder, port));
  }
  return status;
}

void Worker::Remove(const Forwarder* forwarder) {
  std::erase(forwarders_, forwarder);
  for (size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    if (event.forwarder != forwarder) continue;
    if (event.source == Source::kPort) {
      Forget(i, forwarder->ports()[event.port].port->receive_fd());
    } else if (event.source == Source::kInjected) {
      Forget(i, forwarder->injected()->fd());
    } else {
      Forget(i, forwarder->endpoint() == nullptr ? -1 : forwarder->endpoint()->event_fd());
    }
  }
}

absl::Status Worker::AddPort(Forwarder* forwarder, uint32_t port) {
  return Watch(forwarder->ports()[port].port->receive_fd(), {Source::kPort, forwarder, port});
}

void Worker::RemovePort(const Forwarder* forwarder, uint32_t port) {
  for (size_t i = 0; i < events_.size(); ++i) {
    if (events_[i].source != Source::kPort || events_[i].forwarder != forwarder ||
        events_[i].port != port)
      continue;
    return Forget(i, forwarder->ports()[port].port->receive_fd());
  }
}

// Closing the former endpoint removed its descriptor from the epoll set.
absl::Status Worker::WatchEndpointOf(const Forwarder* forwarder) {
  if (forwarder->endpoint() == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < events_.size(); ++i) {
    if (events_[i].source != Source::kFabric || events_[i].forwarder != forwarder) continue;
    return WatchAs(forwarder->endpoint()->event_fd(), i);
  }
  return absl::NotFoundError("watch an endpoint in a worker: its forwarder was not added");
}

void Worker::Start() {
  stopping_.store(false);
  ClearEventFd(stop_event_.get());
  // Posts receives before control can announce this agent.
  for (Forwarder* forwarder : forwarders_) forwarder->PollFabric();
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), name_.c_str());
}

void Worker::BeginStop(absl::Duration backlog) {
  if (!thread_.joinable()) return;
  stop_by_ = clock_.Now() + backlog;
  stopping_.store(true);
  RingEventFd(stop_event_.get());
}

void Worker::Join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::Stop(absl::Duration backlog) {
  BeginStop(backlog);
  Join();
}

bool Worker::IsToStop(bool busy) const {
  return ABSL_PREDICT_FALSE(stopping_.load(std::memory_order_acquire)) &&
         (!busy || clock_.Now() >= stop_by_);
}

bool Worker::MakesProgress() {
  const bool progressed = progressed_.exchange(false, std::memory_order_relaxed);
  RingEventFd(watchdog_event_.get());
  return progressed || !thread_.joinable();
}

void Worker::Run() {
  bool busy = true;
  idle_ = IdlePolicy(realtime_, TrafficAtPorts());  // forwarders may have gone
  priority_ = {};
  while (!IsToStop(busy)) {
    YieldToReaders();
    if (busy) {
      AdjustPriority();
    } else {
      ArmFabrics();
      busy = PollFabrics();
      // A send that completed before the queue was armed raises no event, so reap it here.
      Housekeep();
    }
    busy = Turn(busy ? 0 : SleepMilliseconds()) || (busy && WaitBeforeSleep());
  }
  for (Forwarder* forwarder : forwarders_) DataPath::SendLast(forwarder);
}

// The receive buffer of a socket would overflow while its program waits for this processor.
// Linux 6.18 makes a program that yields wait for the others' time slices, so a worker yields for
// that reason only.
void Worker::YieldToReaders() {
  uint64_t frames = 0;
  for (const Forwarder* forwarder : forwarders_) frames += forwarder->traffic().to_sockets;
  if (frames - frames_at_yield_ < kFramesBeforeYield) return;
  frames_at_yield_ = frames;
  sched_yield();
}

// Waits for events for `sleep_milliseconds`, and does what is due. Returns whether there was
// anything.
bool Worker::Turn(int sleep_milliseconds) {
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), sleep_milliseconds);
  if (sleep_milliseconds != 0) poll_window_.End(clock_.Now());
  for (int i = 0; i < count; ++i) Handle(ready[i].data.u64);
  const bool any = PollFabrics() || count > 0;
  Housekeep();
  return any;
}

// Returns whether there may be something to do.
bool Worker::WaitBeforeSleep() {
  // An idle moment is all that it waits for.
  if (stopping_.load(std::memory_order_relaxed)) return false;
  const IdlePolicy::Choice choice = idle_.OnIdle(TrafficAtPorts());
  if (idle_.pauses()) {
    priority_.RunAhead(clock_.Now());
  } else {
    priority_.RunAsPrograms();
  }
  switch (choice) {
    case IdlePolicy::Choice::kSleep:
      return false;
    case IdlePolicy::Choice::kPause:
      absl::SleepFor(IdlePolicy::kPauseTime);
      return true;
    case IdlePolicy::Choice::kPoll:
      break;
  }
  absl::Time now = clock_.Now();
  const absl::Time end = poll_window_.Begin(now);
  for (; !stopping_.load(std::memory_order_relaxed) && now < end; now = clock_.Now()) {
    if (!Turn(0)) continue;
    poll_window_.End(now);
    return true;
  }
  return false;
}

void Worker::AdjustPriority() {
  if (priority_.runs_ahead()) {
    priority_.Expire(clock_.Now());
  } else if (idle_.IsBehind(TrafficAtPorts())) {
    priority_.RunAhead(clock_.Now());
  }
}

PortTraffic Worker::TrafficAtPorts() const {
  PortTraffic total;
  for (const Forwarder* forwarder : forwarders_) {
    total.from_sockets += forwarder->traffic().from_sockets;
    total.to_sockets += forwarder->traffic().to_sockets;
    total.bytes += forwarder->traffic().bytes;
  }
  return total;
}

void Worker::Housekeep() {
  for (Forwarder* forwarder : forwarders_) forwarder->Housekeep();
  if (ABSL_PREDICT_FALSE(!paused_.empty())) ResumePorts();
}

// A port that is ready would end every sleep. The completions that make room in the send queue
// raise an event.
void Worker::PausePort(size_t event) {
  WatchPort(event, 0);
  paused_.push_back(event);
}

void Worker::ResumePorts() {
  std::erase_if(paused_, [this](size_t event) {
    if (events_[event].forwarder->IsCongested()) return false;
    WatchPort(event, EPOLLIN);
    return true;
  });
}

void Worker::WatchPort(size_t event, uint32_t conditions) {
  const Event& port = events_[event];
  epoll_event request{};
  request.events = conditions;
  request.data.u64 = event;
  const int fd = port.forwarder->ports()[port.port].port->receive_fd();
  // Fails for an interface that was deleted (TapPort::StopReading)
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &request);
}

void Worker::Handle(size_t index) {
  const Event& event = events_[index];
  switch (event.source) {
    case Source::kUnused:
      break;
    case Source::kStop:
      ClearEventFd(stop_event_.get());  // it is no work
      break;
    case Source::kWatchdog:
      ClearEventFd(watchdog_event_.get());
      progressed_.store(true, std::memory_order_relaxed);
      break;
    case Source::kFabric:
      if (UdEndpoint* endpoint = event.forwarder->endpoint(); endpoint != nullptr)
        endpoint->DrainEvents();
      break;
    case Source::kInjected:
      PollInjected(event.forwarder);
      break;
    case Source::kPort:
      if (ABSL_PREDICT_FALSE(event.forwarder->IsCongested())) return PausePort(index);
      event.forwarder->PollPort(event.port);
      break;
  }
}

// A bounded part of what control has queued: each frame may flood to a thousand ports.
void Worker::PollInjected(Forwarder* forwarder) {
  forwarder->injected()->Clear();
  int polls = 0;
  while (polls < kInjectedATurn && forwarder->PollInjected()) ++polls;
  if (polls == kInjectedATurn) forwarder->injected()->Notify();  // the next turn goes on
}

// A queue pair may have received more than a batch while the others were polled.
bool Worker::PollFabrics() {
  bool any = false;
  for (Forwarder* forwarder : forwarders_) {
    for (int batches = 0; batches < kBatchesATurn && forwarder->PollFabric(); ++batches) any = true;
  }
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
