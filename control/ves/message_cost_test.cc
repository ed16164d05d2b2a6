// The cost of messages of a hostile member. `tests/bench/run.sh messages` judges the absolute
// costs.
#include <algorithm>
#include <string>
#include <vector>

#include "control/ves/message_costs_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/sanitizer_for_test.h"

namespace eoib {
namespace {

constexpr size_t kLarge = kSanitized ? 2048 : AgentView::kMaxMacs;
constexpr size_t kSmall = kLarge / 16;
// A walk through all of the large state takes 50 to 300 ms. Freed memory that goes back to the
// kernel takes a few.
constexpr absl::Duration kNoise = absl::Milliseconds(20);

class MessageCostTest : public testing::TestWithParam<CostlyKind> {
 protected:
  // Returns the median of several runs' longest slices, because other programs spoil the caches.
  static absl::Duration MedianSlice(size_t macs) {
    std::vector<absl::Duration> slices;
    for (int run = 0; run < 3; ++run) slices.push_back(Measure(GetParam(), macs).largest);
    std::sort(slices.begin(), slices.end());
    return slices[slices.size() / 2];
  }
};

// 16 times the state takes 16 times as long if a slice walks all of it.
TEST_P(MessageCostTest, ALargeStateMakesNoLongSlice) {
  const absl::Duration small = MedianSlice(kSmall), large = MedianSlice(kLarge);
  EXPECT_GT(small, absl::ZeroDuration());
  if (kSanitized) return;
  EXPECT_LT(large, 5 * small + kNoise);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MessageCostTest, testing::ValuesIn(CostlyKinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace eoib
