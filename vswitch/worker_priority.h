// WorkerPriority: whether the calling thread runs ahead of programs, as the kernel's own packet
// processing does in a softirq.
//
// At the priority of a program that sends without pause, a worker would wait for that program's
// time slice, some milliseconds, while a queue of 1,000 frames overflows in three.
#ifndef EOIB_VSWITCH_WORKER_PRIORITY_H_
#define EOIB_VSWITCH_WORKER_PRIORITY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace eoib {

class WorkerPriority {
 public:
  // Tries it on the calling thread. An error says what to do so that workers may.
  static absl::Status Check();

  // How long a thread runs ahead after the last RunAhead, and how long it does not do so after
  // that. So programs get on, however much there is to do.
  static constexpr absl::Duration kLongest = absl::Milliseconds(5), kRest = absl::Milliseconds(5);

  // Each changes the calling thread: to SCHED_RR at the lowest real-time priority, or back to
  // SCHED_OTHER (sched(7)). They do nothing if it may not, or if it has another policy than these:
  // then an operator chose it.
  void RunAhead(absl::Time now);
  void RunAsPrograms();
  // Call it at least once a millisecond; it ends RunAhead when its time is over.
  void Expire(absl::Time now);
  bool runs_ahead() const { return runs_ahead_; }

 private:
  absl::Time end_;   // of running ahead
  absl::Time rest_;  // until then
  bool runs_ahead_ = false;
  bool may_ = true;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WORKER_PRIORITY_H_
