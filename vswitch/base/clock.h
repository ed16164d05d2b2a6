// Injected time: code takes a Clock and never asks the system, so no test sleeps.
#ifndef EOIB_VSWITCH_BASE_CLOCK_H_
#define EOIB_VSWITCH_BASE_CLOCK_H_

#include <atomic>
#include <ctime>

#include "absl/time/time.h"

namespace eoib {

// A monotonic clock. Only differences between its times have a meaning. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// CLOCK_MONOTONIC: runs while the process is stopped, stands still while the host is suspended.
class MonotonicClock final : public Clock {
 public:
  absl::Time Now() const override {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return absl::TimeFromTimespec(now);
  }
};

// A clock that stands still until a test moves it.
class FakeClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::FromUnixNanos(nanos_.load(std::memory_order_acquire));
  }
  void Advance(absl::Duration by) {
    nanos_.fetch_add(absl::ToInt64Nanoseconds(by), std::memory_order_acq_rel);
  }

 private:
  std::atomic<int64_t> nanos_{1'000'000'000};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_CLOCK_H_
