#include "fdb/fdb_ticks.h"

#include <algorithm>
#include <limits>

namespace eoib {
namespace {

// Ticks are compared modulo 2^16. The rest of the range is for entries that have aged out and are
// not reclaimed yet.
constexpr int64_t kMostAgeingTicks = 28'800;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

FdbTicks::FdbTicks(absl::Duration ageing) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  // Rounded up: an ageing time above zero must not become zero, which means "never".
  const int64_t seconds =
      std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(ageing, absl::Seconds(1))), 0, kMax);
  if (seconds == 0) return;
  seconds_ = static_cast<uint32_t>(CeilDivide(seconds, kMostAgeingTicks));
  ageing_ = static_cast<uint16_t>(CeilDivide(seconds, seconds_));
}

}  // namespace eoib
