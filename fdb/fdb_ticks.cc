#include "fdb/fdb_ticks.h"

#include <algorithm>
#include <limits>

namespace eoib {
namespace {

// Ticks are compared modulo 2^16. The rest of the range is for entries that have aged out and are not reclaimed yet.
constexpr int64_t kMostAgeingTicks = 28'800;

// Rounds up: an ageing time above zero must not become zero, which means "never".
int64_t CeilSeconds(absl::Duration duration) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  return std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 0, kMax);
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One second, or more if the ageing time would take too many ticks. Without ageing, ticks only serve to show ages, so a minute
// will do.
uint32_t TickSeconds(absl::Duration ageing) {
  constexpr uint32_t kMinute = 60;
  const int64_t seconds = CeilSeconds(ageing);
  return seconds == 0 ? kMinute : static_cast<uint32_t>(CeilDivide(seconds, kMostAgeingTicks));
}

uint16_t AgeingTicks(absl::Duration ageing) {
  const int64_t seconds = CeilSeconds(ageing);
  return seconds == 0 ? AgeLimit::kNever : static_cast<uint16_t>(CeilDivide(seconds, TickSeconds(ageing)));
}

}  // namespace

FdbTicks::FdbTicks(absl::Duration ageing) : seconds_(TickSeconds(ageing)), ageing_(AgeingTicks(ageing)) {}

}  // namespace eoib
