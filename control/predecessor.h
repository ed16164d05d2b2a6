// A start right after another process of the same program was killed or asked to stop: until the kernel has torn that one down,
// its sockets and locks are still in use.
#ifndef EOIB_CONTROL_PREDECESSOR_H_
#define EOIB_CONTROL_PREDECESSOR_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "fdb/clock.h"

namespace eoib {

// How long a start waits for them. One that lives longer is another program, and an error.
inline constexpr absl::Duration kPredecessorPatience = absl::Seconds(2);

class PredecessorWait {
 public:
  // `signals` becomes readable when this program is told to end.
  PredecessorWait(int signals, const Clock* clock)
      : signals_(signals), clock_(clock), end_(clock->Now() + kPredecessorPatience) {}

  // Waits a moment, or returns false: kPredecessorPatience is over, or this program is to end.
  bool operator()() const;

 private:
  const int signals_;
  const Clock* const clock_;
  const absl::Time end_;
};

// What `start` returns, an absl::StatusOr, as soon as it is not kAlreadyExists, and at the latest when `wait` is over.
template <typename Start>
auto StartAfterPredecessor(const PredecessorWait& wait, Start start) {
  auto started = start();
  while (absl::IsAlreadyExists(started.status()) && wait()) started = start();
  return started;
}

}  // namespace eoib

#endif  // EOIB_CONTROL_PREDECESSOR_H_
