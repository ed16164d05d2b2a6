#include "vswitch/fabric/softhca/fault_rule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace eoib::softhca {
namespace {

constexpr uint32_t kHighestPpm = 1'000'000;

}  // namespace

absl::Status CheckFaultRule(const FaultRule& rule) {
  if (std::max({rule.loss_ppm, rule.duplicate_ppm, rule.reorder_ppm}) > kHighestPpm) {
    return absl::InvalidArgumentError(
        "a fault's probability: must be 0 to 1000000, parts per million");
  }
  if (rule.delay < absl::ZeroDuration() || rule.delay > FaultRule::kMaxDelay) {
    return absl::InvalidArgumentError(
        absl::StrCat("a fault's delay: must be 0 to ", absl::FormatDuration(FaultRule::kMaxDelay)));
  }
  return absl::OkStatus();
}

}  // namespace eoib::softhca
