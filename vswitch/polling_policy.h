// PollingPolicy: decides whether a worker that has run out of work polls for a moment before it sleeps.
//
// Polling spares a wake-up for each message of an exchange that goes to and fro. During a bulk transfer it would take time from
// the programs that send and receive, so a worker polls only while little passes between two idle moments.
#ifndef EOIB_VSWITCH_POLLING_POLICY_H_
#define EOIB_VSWITCH_POLLING_POLICY_H_

#include <cstdint>

#include "absl/time/time.h"

namespace eoib {

class PollingPolicy {
 public:
  static constexpr absl::Duration kTime = absl::Microseconds(50);
  // The mean number of bytes between idle moments up to which a worker polls.
  static constexpr uint64_t kLittle = 2048;

  // To call whenever the work has run out; `bytes` is what passed so far in all. Returns whether to poll for kTime.
  bool OnIdle(uint64_t bytes) {
    const uint64_t passed = bytes - bytes_;
    bytes_ = bytes;
    mean_ = mean_ - mean_ / kWeight + passed;
    return mean_ < kLittle * kWeight;
  }

 private:
  static constexpr uint64_t kWeight = 8;  // of the past: an exponential moving average

  uint64_t bytes_ = 0;
  uint64_t mean_ = 0;  // times kWeight
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_POLLING_POLICY_H_
