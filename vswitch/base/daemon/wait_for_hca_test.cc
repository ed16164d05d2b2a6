#include "vswitch/base/daemon/wait_for_hca.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

class WaitForHcaTest : public testing::Test {
 protected:
  WaitForHcaTest() {
    // Each round of the loop advances the clock.
    loop_.AddDeadline([] { return absl::InfinitePast(); },
                      [this] {
                        clock_.Advance(absl::Milliseconds(100));
                        if (clock_.Now() > stop_at_) loop_.Stop();
                      });
  }
  // The start fails `failures` times with `error`, then succeeds.
  absl::Status Wait(const absl::Status& error, int failures) {
    const auto start = [=, this] {
      started_at_.push_back(clock_.Now());
      const absl::StatusOr<std::string> show = commands_.Run("show", {});
      shown_ = show.ok() ? *show : std::string(show.status().message());
      other_ = std::string(commands_.Run("stats", {}).status().message());
      return static_cast<int>(started_at_.size()) <= failures ? error : absl::OkStatus();
    };
    return WaitForHca(start, &commands_, &loop_, &service_manager_);
  }

  FakeClock clock_;
  EventLoop loop_{&clock_};
  ServiceManager service_manager_{&loop_};
  CommandRegistry commands_;
  absl::Time stop_at_ = absl::InfiniteFuture();
  std::vector<absl::Time> started_at_;
  std::string shown_;
  std::string other_;  // the answer to a command that comes with the HCA
};

TEST_F(WaitForHcaTest, StartsAtOnceWithAPresentHca) {
  EXPECT_TRUE(Wait(absl::OkStatus(), 0).ok());
  EXPECT_EQ(started_at_.size(), 1u);
}

TEST_F(WaitForHcaTest, RetriesOnceASecondAndShowsTheError) {
  const absl::Status status =
      Wait(absl::NotFoundError("open InfiniBand device mlx5_0: there is mlx5_1"), 3);
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(started_at_.size(), 4u);
  EXPECT_EQ(shown_, "waiting for the HCA: open InfiniBand device mlx5_0: there is mlx5_1\n");
  EXPECT_EQ(other_,
            "\"stats\" is not available yet: waiting for the HCA: open InfiniBand device mlx5_0: "
            "there is mlx5_1");
  EXPECT_TRUE(
      absl::StrContains(commands_.Run("stats", {}).status().message(), "not a valid command"))
      << "no longer";
  for (size_t i = 1; i < started_at_.size(); ++i)
    EXPECT_GE(started_at_[i] - started_at_[i - 1], absl::Seconds(1));
  EXPECT_LT(started_at_.back() - started_at_.front(), absl::Seconds(4));
  EXPECT_FALSE(commands_.Run("show", {}).ok()) << "the started program registers its own";
}

TEST_F(WaitForHcaTest, ReturnsAnErrorThatWaitingDoesNotMend) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("no such form"), absl::FailedPreconditionError("iWARP"),
        absl::CancelledError("asked to stop")}) {
    started_at_.clear();
    EXPECT_EQ(Wait(error, 1), error);
    EXPECT_EQ(started_at_.size(), 1u);
  }
}

TEST_F(WaitForHcaTest, IsCancelledWhenTheLoopIsStopped) {
  stop_at_ = clock_.Now() + absl::Minutes(3);
  EXPECT_TRUE(
      absl::IsCancelled(Wait(absl::NotFoundError("open InfiniBand device mlx5_0"), 1'000'000)));
  EXPECT_GE(started_at_.size(), 100u);
}

}  // namespace
}  // namespace eoib
