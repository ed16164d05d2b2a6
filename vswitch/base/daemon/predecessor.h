// StartAfterPredecessor: waits for another process of the same program that was just killed or told
// to stop. Its sockets and locks stay in use for a moment.
#ifndef EOIB_VSWITCH_BASE_DAEMON_PREDECESSOR_H_
#define EOIB_VSWITCH_BASE_DAEMON_PREDECESSOR_H_

#include <poll.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"

namespace eoib {

// A process that still runs after this time is no predecessor but a second instance, which is an
// error.
inline constexpr absl::Duration kPredecessorTimeout = absl::Seconds(2);

// Calls `start`, which returns an absl::StatusOr, until the result is not kAlreadyExists,
// kPredecessorTimeout is over, or the descriptor `signals` is readable. Returns the last result.
template <typename Start>
auto StartAfterPredecessor(int signals, const Clock* clock, Start start) {
  constexpr int kRetryMilliseconds = 20;
  const absl::Time end = clock->Now() + kPredecessorTimeout;
  pollfd signal = {signals, POLLIN, 0};
  auto started = start();
  while (absl::IsAlreadyExists(started.status()) && clock->Now() < end &&
         poll(&signal, 1, kRetryMilliseconds) == 0) {
    started = start();
  }
  return started;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_PREDECESSOR_H_
