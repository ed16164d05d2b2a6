// The processor time of this thread. Tests compare the costs of two cases with it, so other load
// does not matter.
#ifndef EOIB_CONTROL_PROTOCOL_THREAD_TIME_FOR_TEST_H_
#define EOIB_CONTROL_PROTOCOL_THREAD_TIME_FOR_TEST_H_

#include <time.h>

#include "absl/time/time.h"

namespace eoib {

inline absl::Duration ThreadTime() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_THREAD_TIME_FOR_TEST_H_
