#include "vswitch/polling_policy.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

class PollingPolicyTest : public testing::Test {
 protected:
  // Whether the worker polls after so many bytes passed since the last idle moment.
  bool Polls(uint64_t passed) { return policy_.OnIdle(total_ += passed); }

  PollingPolicy policy_;
  uint64_t total_ = 0;
};

TEST_F(PollingPolicyTest, PollsWhileSmallFramesGoToAndFro) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Polls(2 * 98)) << i;
}

TEST_F(PollingPolicyTest, StopsDuringABulkTransferAndResumesAfterIt) {
  for (int i = 0; i < 16; ++i) Polls(65'536);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Polls(4'096)) << i;
  int idle_moments = 0;
  while (!Polls(98)) ASSERT_LT(++idle_moments, 32);
  EXPECT_TRUE(Polls(98));
}

// One large frame, for instance of a database's answer, is no bulk transfer.
TEST_F(PollingPolicyTest, OneLargeFrameAmongSmallOnesChangesNothing) {
  for (int i = 0; i < 20; ++i) Polls(98);
  EXPECT_TRUE(Polls(9'018));
  EXPECT_TRUE(Polls(98));
}

}  // namespace
}  // namespace eoib
