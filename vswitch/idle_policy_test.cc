#include "vswitch/idle_policy.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

constexpr uint64_t kSmall = 98, kLarge = 9'018;  // bytes of a frame

class IdlePolicyTest : public testing::Test {
 protected:
  using enum IdlePolicy::Choice;

  // The choice of a worker that has received `from` frames from sockets and transmitted `to` frames
  // to them, since the last one.
  IdlePolicy::Choice After(uint64_t from, uint64_t to, uint64_t size = kSmall) {
    total_.from_sockets += from;
    total_.to_sockets += to;
    total_.bytes += (from + to) * size;
    return policy_.OnIdle(total_);
  }
  void Repeat(int times, uint64_t from, uint64_t to, uint64_t size = kSmall) {
    for (int i = 0; i < times; ++i) After(from, to, size);
  }

  IdlePolicy policy_{/*may_pause=*/true};
  PortTraffic total_;
};

TEST_F(IdlePolicyTest, PollsWhileSmallFramesGoToAndFro) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(After(1, 1), kPoll) << i;
}

TEST_F(IdlePolicyTest, SleepsDuringABulkTransferAndPollsAgainAfterIt) {
  Repeat(16, 1, 0, 65'536);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(After(1, 0, 4'096), kSleep) << i;
  int idle_moments = 0;
  while (After(1, 0) != kPoll) ASSERT_LT(++idle_moments, 32);
  EXPECT_EQ(After(1, 0), kPoll);
}

// One large frame, for instance of a database's answer, is no bulk transfer.
TEST_F(IdlePolicyTest, OneLargeFrameAmongSmallOnesChangesNothing) {
  Repeat(20, 1, 0);
  EXPECT_EQ(After(1, 0, kLarge), kPoll);
  EXPECT_EQ(After(1, 0), kPoll);
}

TEST_F(IdlePolicyTest, PausesWhileManySmallFramesComeInEitherDirection) {
  Repeat(64, 40, 0);
  EXPECT_EQ(After(40, 0), kPause);
  Repeat(64, 0, 40);
  EXPECT_EQ(After(0, 40), kPause);
  EXPECT_TRUE(policy_.pauses());
}

// A pause shortens what comes between two idle moments, and must not end itself.
TEST_F(IdlePolicyTest, GoesOnPausingWhileHalfAsManyCome) {
  After(1000, 0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(After(16, 0), kPause) << i;
}

TEST_F(IdlePolicyTest, PausesNoLongerWhenFewCome) {
  Repeat(64, 40, 0);
  int idle_moments = 0;
  while (After(1, 1) != kPoll) ASSERT_LT(++idle_moments, 32);
  EXPECT_FALSE(policy_.pauses());
}

// Otherwise a worker without work would pause forever.
TEST_F(IdlePolicyTest, DoesNotPauseWhenNothingCame) {
  Repeat(64, 40, 0);
  EXPECT_NE(After(0, 0), kPause);
}

// A pause would be added to the time of each request.
TEST_F(IdlePolicyTest, DoesNotPauseForSixteenRequestsUnderWay) {
  for (int i = 0; i < 100; ++i) ASSERT_NE(After(16, 16), kPause) << i;
}

// A guest's memory takes what waits, and its queue holds it back.
TEST_F(IdlePolicyTest, DoesNotPauseForTheFramesOfGuests) {
  for (int i = 0; i < 100; ++i) {
    total_.bytes += 200 * kSmall;
    ASSERT_EQ(policy_.OnIdle(total_), kSleep) << i;
  }
}

TEST_F(IdlePolicyTest, IsBehindAfterAThousandSmallFramesWithoutAnIdleMoment) {
  After(2000, 0);
  total_.from_sockets += 1023;
  total_.bytes += 1023 * kSmall;
  EXPECT_FALSE(policy_.IsBehind(total_));
  ++total_.from_sockets;
  EXPECT_TRUE(policy_.IsBehind(total_));
  total_.bytes += 1024 * kLarge;
  EXPECT_FALSE(policy_.IsBehind(total_)) << "that is a bulk transfer";
  After(0, 0);
  EXPECT_FALSE(policy_.IsBehind(total_));
}

TEST_F(IdlePolicyTest, DoesNotPauseIfItMayNot) {
  policy_ = IdlePolicy(/*may_pause=*/false);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(After(1000, 0), kSleep) << i;
  EXPECT_FALSE(policy_.pauses());
  total_.from_sockets += 2000;
  EXPECT_FALSE(policy_.IsBehind(total_));
}

TEST_F(IdlePolicyTest, DoesNotPauseForManyLargeFrames) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(After(40, 20, kLarge), kSleep) << i;
}

TEST(PollWindowTest, IsLongAfterWorkThatCameSoon) {
  const absl::Time start = absl::UnixEpoch();
  PollWindow window;
  EXPECT_EQ(window.Begin(start) - start, PollWindow::kShort);
  window.End(start + absl::Microseconds(100));
  EXPECT_EQ(window.Begin(start) - start, PollWindow::kLong);
  window.End(start + absl::Microseconds(101));
  EXPECT_EQ(window.Begin(start) - start, PollWindow::kShort);
}

}  // namespace
}  // namespace eoib
