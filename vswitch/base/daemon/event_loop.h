// EventLoop: the epoll loop of a control thread, with timers and posted callbacks.
#ifndef EOIB_VSWITCH_BASE_DAEMON_EVENT_LOOP_H_
#define EOIB_VSWITCH_BASE_DAEMON_EVENT_LOOP_H_

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
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

// Calls back when a descriptor is ready, a timer expires, or another thread posts. The caller owns
// the descriptors and the clock. All callbacks run on the thread that calls Run or RunOnce, one at
// a time. A callback may call everything here but these two; it may remove itself and others, and a
// removed callback is not called any more. Other threads may call only Post and Stop.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(uint32_t events)>;  // EPOLLIN | EPOLLOUT | ...
  using DeadlineProvider = std::function<absl::Time()>;
  using TimerId = uint64_t;  // never 0

  explicit EventLoop(const Clock* clock);
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Level-triggered. Fails for a descriptor that epoll refuses or that was added already. Remove it
  // before closing it.
  absl::Status Add(int fd, uint32_t events, FdCallback callback);
  // Does nothing if the descriptor was not added.
  void Remove(int fd);

  // Calls once, not before `when` on the loop's clock. Order: by time, then by order of these
  // calls.
  TimerId CallAt(absl::Time when, Callback callback);
  // For components that track their own deadlines. Each round calls `next` and runs `callback` if
  // the time that it returns has come. absl::InfiniteFuture() means no deadline.
  TimerId AddDeadline(DeadlineProvider next, Callback callback);
  // For timers of both kinds. Does nothing if the timer has run or was cancelled.
  void Cancel(TimerId timer);

  // From any thread: runs `callback` on the loop's thread, in the order of the posts.
  void Post(Callback callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // One round: waits until something is ready, but not beyond `deadline` (in the past: does not
  // wait), and runs what is ready. Callbacks that are added meanwhile run in a later round.
  void RunOnce(absl::Time deadline);
  // Runs rounds until Stop.
  void Run();
  // From any thread, also before Run. Run returns after its present round.
  void Stop();

  absl::Time Now() const { return clock_->Now(); }

 private:
  struct Descriptor {
    uint64_t added_in_round;  // distinguishes it from an earlier descriptor with the same number
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

#endif  // EOIB_VSWITCH_BASE_DAEMON_EVENT_LOOP_H_
