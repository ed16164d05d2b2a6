// EventLoop: what a control thread waits in.
#ifndef EOIB_CONTROL_EVENT_LOOP_H_
#define EOIB_CONTROL_EVENT_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "fdb/clock.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib {

// Calls back when a descriptor is ready, a time has come, or another thread has posted something. Descriptors and the clock
// stay the caller's. All callbacks run on the thread that calls Run or RunOnce, one at a time; they may call everything here
// except these two, and may remove themselves and each other: what is removed is not called any more. Only Post and Stop may be
// called from other threads.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(uint32_t events)>;  // EPOLLIN | EPOLLOUT | ...
  using DeadlineProvider = std::function<absl::Time()>;
  using TimerId = uint64_t;  // never 0

  explicit EventLoop(const Clock* clock);
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Level-triggered. Fails for a descriptor that epoll does not take, or that is there already. Remove before closing it.
  absl::Status Add(int fd, uint32_t events, FdCallback callback);
  // Other events for a descriptor that is there.
  absl::Status Modify(int fd, uint32_t events);
  // Does nothing if the descriptor is not there.
  void Remove(int fd);

  // Once, not before `when` on the loop's clock; in the order of time, and of calls for the same time.
  TimerId CallAt(absl::Time when, Callback callback);
  // For components that know themselves when they want to run: `callback` runs whenever the time that `next` gives has come.
  // `next` is asked in each round; absl::InfiniteFuture(): not now.
  TimerId AddDeadline(DeadlineProvider next, Callback callback);
  // Both kinds. Does nothing if the timer has run or is gone.
  void Cancel(TimerId timer);

  // From any thread: runs `callback` on the loop's thread, in the order of posting.
  void Post(Callback callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // One round: waits until something is ready, at the latest until `deadline` (a time that has passed: does not wait), and
  // calls back what is. What the callbacks add runs in a later round.
  void RunOnce(absl::Time deadline);
  // Rounds until Stop.
  void Run();
  // From any thread, also before Run: Run returns after the round it is in.
  void Stop();

  absl::Time Now() const { return clock_->Now(); }

 private:
  struct Descriptor {
    uint64_t added_in_round;  // tells a descriptor from an earlier one of the same number
    FdCallback callback;
  };
  struct Deadline {
    DeadlineProvider next;
    Callback callback;
  };

  int WaitMilliseconds(absl::Time deadline) const;
  absl::Time NextTimer() const;
  void RunDescriptors(int timeout);
  void RunTimers();
  void RunDeadlines();
  void RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake();

  const Clock* const clock_;
  UniqueFd epoll_;
  UniqueFd wake_;  // an eventfd
  std::map<int, std::shared_ptr<Descriptor>> descriptors_;
  std::map<std::pair<absl::Time, TimerId>, Callback> timers_;
  std::map<TimerId, std::shared_ptr<Deadline>> deadlines_;
  TimerId last_timer_ = 0;
  uint64_t round_ = 0;
  std::atomic<bool> stop_{false};

  absl::Mutex mutex_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EVENT_LOOP_H_
