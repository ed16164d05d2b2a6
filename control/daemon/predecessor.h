// Waits for a predecessor: for a moment after another process of the same program was killed or told to stop, its sockets and
// locks are still in use.
#ifndef EOIB_CONTROL_DAEMON_PREDECESSOR_H_
#define EOIB_CONTROL_DAEMON_PREDECESSOR_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"

namespace eoib {

// How long a start waits. A process that lives longer is no predecessor but a second instance, which is an error.
inline constexpr absl::Duration kPredecessorPatience = absl::Seconds(2);

class PredecessorWait {
 public:
  // `signals` becomes readable when this program is told to end.
  PredecessorWait(int signals, const Clock* clock)
      : signals_(signals), clock_(clock), end_(clock->Now() + kPredecessorPatience) {}

  // Sleeps for a moment and returns true. False if kPredecessorPatience is over or this program is told to end.
  bool operator()() const;

 private:
  const int signals_;
  const Clock* const clock_;
  const absl::Time end_;
};

// Calls `start`, which returns an absl::StatusOr, until the result is not kAlreadyExists or `wait` is over. Returns the last
// result.
template <typename Start>
auto StartAfterPredecessor(const PredecessorWait& wait, Start start) {
  auto started = start();
  while (absl::IsAlreadyExists(started.status()) && wait()) started = start();
  return started;
}

}  // namespace eoib

#endif  // EOIB_CONTROL_DAEMON_PREDECESSOR_H_
