#include "vswitch/base/daemon/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "vswitch/base/check.h"
#include "vswitch/base/event_fd.h"

namespace eoib {
namespace {

// Further ready descriptors are served in the next round.
constexpr size_t kEventsPerRound = 64;

}  // namespace

EventLoop::EventLoop(const Clock* clock)
    : clock_(clock), epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(MakeEventFd()) {
  // Both fail only for lack of descriptors or memory, at the start of a program that cannot run
  // without them.
  EOIB_CHECK(epoll_.valid() && wake_.valid());
  EOIB_CHECK(Add(wake_.get(), EPOLLIN, [this](uint32_t) { ClearEventFd(wake_.get()); }).ok());
}

absl::Status EventLoop::Add(int fd, uint32_t events, FdCallback callback) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("wait for events of descriptor ", fd));
  }
  descriptors_[fd] = std::make_shared<Descriptor>(Descriptor{round_, std::move(callback)});
  return absl::OkStatus();
}

void EventLoop::Remove(int fd) {
  if (descriptors_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::CallAt(absl::Time when, Callback callback) {
  const TimerId id = ++last_timer_;
  timers_.emplace(std::make_pair(when, id), std::move(callback));
  return id;
}

EventLoop::TimerId EventLoop::AddDeadline(DeadlineProvider next, Callback callback) {
  const TimerId id = ++last_timer_;
  deadlines_.emplace(id,
                     std::make_shared<Deadline>(Deadline{std::move(next), std::move(callback)}));
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  if (deadlines_.erase(timer) > 0) return;
  const auto found = std::find_if(timers_.begin(), timers_.end(), [timer](const auto& entry) {
    return entry.first.second == timer;
  });
  if (found != timers_.end()) timers_.erase(found);
}

void EventLoop::Post(Callback callback) {
  {
    absl::MutexLock lock(&mutex_);
    posted_.push_back(std::move(callback));
  }
  RingEventFd(wake_.get());
}

void EventLoop::Stop() {
  stop_.store(true, std::memory_order_release);
  RingEventFd(wake_.get());
}

void EventLoop::Run() {
  while (!stop_.exchange(false, std::memory_order_acq_rel)) RunOnce(absl::InfiniteFuture());
}

void EventLoop::RunOnce(absl::Time deadline) {
  ++round_;
  RunDescriptors(WaitMilliseconds(std::min(deadline, NextTimer())));
  RunPosted();
  RunTimers();
  RunDeadlines();
}

absl::Time EventLoop::NextTimer() const {
  absl::Time next = timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
  for (const auto& [id, deadline] : deadlines_) next = std::min(next, deadline->next());
  return next;
}

// Rounded up: rounded down, the loop would spin through the last millisecond before a timer.
int EventLoop::WaitMilliseconds(absl::Time deadline) const {
  if (deadline == absl::InfiniteFuture()) return -1;
  const absl::Duration wait = deadline - clock_->Now();
  if (wait <= absl::ZeroDuration()) return 0;
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  return static_cast<int>(std::min<int64_t>(milliseconds, std::numeric_limits<int>::max()));
}

void EventLoop::RunDescriptors(int timeout) {
  std::array<epoll_event, kEventsPerRound> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  for (int i = 0; i < count; ++i) {
    const auto found = descriptors_.find(events[i].data.fd);
    // An earlier callback in this round may have removed it, or added a new descriptor with the
    // same number.
    if (found == descriptors_.end() || found->second->added_in_round == round_) continue;
    const std::shared_ptr<Descriptor> descriptor = found->second;  // lives through its own removal
    descriptor->callback(events[i].events);
  }
}

void EventLoop::RunPosted() {
  std::vector<Callback> posted;
  {
    absl::MutexLock lock(&mutex_);
    posted.swap(posted_);
  }
  for (Callback& callback : posted) callback();
}

void EventLoop::RunTimers() {
  const absl::Time now = clock_->Now();
  const TimerId last = last_timer_;
  // From the front each time, because a callback may cancel any timer. Timers above `last` were
  // added in this round.
  for (auto timer = timers_.begin(); timer != timers_.end() && timer->first.first <= now;) {
    if (timer->first.second > last) {
      ++timer;
      continue;
    }
    const Callback callback = std::move(timer->second);
    timers_.erase(timer);
    callback();
    timer = timers_.begin();
  }
}

void EventLoop::RunDeadlines() {
  const absl::Time now = clock_->Now();
  const TimerId last = last_timer_;
  for (auto at = deadlines_.begin(); at != deadlines_.end() && at->first <= last;) {
    const TimerId id = at->first;
    const std::shared_ptr<Deadline> deadline = at->second;  // lives through its own removal
    if (deadline->next() <= now) deadline->callback();
    at = deadlines_.upper_bound(id);
  }
}

}  // namespace eoib
