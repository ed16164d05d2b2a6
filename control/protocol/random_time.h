// RandomTime: spreads what many agents would otherwise do at the same moment.
#ifndef EOIB_CONTROL_PROTOCOL_RANDOM_TIME_H_
#define EOIB_CONTROL_PROTOCOL_RANDOM_TIME_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"

namespace eoib {

// Gives 64 random bits.
using RandomBits = std::function<uint64_t()>;

// At least zero, and less than `below`.
inline absl::Duration RandomTime(const RandomBits& random, absl::Duration below) {
  return absl::Nanoseconds(
      static_cast<int64_t>(random() % static_cast<uint64_t>(absl::ToInt64Nanoseconds(below))));
}

}  // namespace eoib

#endif  // EOIB_CONTROL_PROTOCOL_RANDOM_TIME_H_
