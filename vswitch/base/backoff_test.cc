#include "vswitch/base/backoff.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

TEST(BackoffTest, PausesDoubleUpToTheLast) {
  Backoff backoff(absl::Seconds(1), absl::Seconds(5));
  EXPECT_EQ(backoff.pauses(), 0);
  for (const int seconds : {1, 2, 4, 5, 5}) EXPECT_EQ(backoff.Pause(), absl::Seconds(seconds));
  EXPECT_EQ(backoff.pauses(), 5);
  backoff.Reset();
  EXPECT_EQ(backoff.pauses(), 0);
  EXPECT_EQ(backoff.Pause(), absl::Seconds(1));
}

}  // namespace
}  // namespace eoib
