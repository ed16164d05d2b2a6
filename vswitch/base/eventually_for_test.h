// Eventually: waits in a test until other threads have done something.
#ifndef EOIB_VSWITCH_BASE_EVENTUALLY_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_EVENTUALLY_FOR_TEST_H_

#include <thread>

#include "absl/time/time.h"
#include "vswitch/base/clock.h"

namespace eoib {

// Calls `step`, and lets other threads run, until it returns true; false after a minute.
template <typename Step>
bool Eventually(Step step) {
  const MonotonicClock clock;
  const absl::Time deadline = clock.Now() + absl::Minutes(1);
  while (!step()) {
    if (clock.Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_EVENTUALLY_FOR_TEST_H_
