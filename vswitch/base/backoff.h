// Backoff: the pauses between tries of what fails. Each is twice as long as the one before.
#ifndef EOIB_VSWITCH_BASE_BACKOFF_H_
#define EOIB_VSWITCH_BASE_BACKOFF_H_

#include <algorithm>

#include "absl/time/time.h"

namespace eoib {

class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration last) : first_(first), last_(last), next_(first) {}

  // The pause until the next try.
  absl::Duration Pause() {
    const absl::Duration pause = next_;
    next_ = std::min(pause * 2, last_);
    ++pauses_;
    return pause;
  }
  // It has succeeded, or there is a reason to try again at once.
  void Reset() {
    next_ = first_;
    pauses_ = 0;
  }
  // Pauses since then.
  int pauses() const { return pauses_; }

 private:
  absl::Duration first_, last_, next_;
  int pauses_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_BACKOFF_H_
