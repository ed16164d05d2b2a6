#include "control/agent_wait.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib {
namespace {

using testing::HasSubstr;

class AwaitAgentTest : public testing::Test {
 protected:
  AwaitAgentTest() {
    // Each round of the loop moves the clock on.
    loop_.AddDeadline([] { return absl::InfinitePast(); },
                      [this] {
                        clock_.Advance(absl::Milliseconds(100));
                        if (clock_.Now() > stop_at_) loop_.Stop();
                      });
  }
  // Fails `failures` times with `error`, then makes an agent.
  absl::StatusOr<std::unique_ptr<Agent>> Make(const absl::Status& error, int failures) {
    tried_at_.push_back(clock_.Now());
    const absl::StatusOr<std::string> show = commands_.Run("show", {});
    shown_ = show.ok() ? *show : std::string(show.status().message());
    if (static_cast<int>(tried_at_.size()) <= failures) return error;
    const AgentConfig config = ParseConfig("[[ves]]\nname = \"blue\"\npkey = 0x8001\n", "test").value();
    return Agent::Create(
        config, softhca::OpenSoftHca(subnet_.Connect(), "h1").value(), state_.get(),
        [](const VPortConfig&, MacAddr, int, FabricPort*) -> absl::StatusOr<VPort> { abort(); }, &loop_, &clock_);
  }
  absl::StatusOr<std::unique_ptr<Agent>> Await(const absl::Status& error, int failures) {
    return AwaitAgent([=, this] { return Make(error, failures); }, &commands_, &loop_, &clock_);
  }

  TempDir directory_;
  FakeClock clock_;
  softhca::Subnet subnet_{softhca::Subnet::Options()};
  EventLoop loop_{&clock_};
  std::unique_ptr<StateDir> state_ = StateDir::Open(directory_.path()).value();
  CommandRegistry commands_;
  absl::Time stop_at_ = absl::InfiniteFuture();
  std::vector<absl::Time> tried_at_;
  std::string shown_;
};

TEST_F(AwaitAgentTest, AnHcaThatIsThereIsNotWaitedFor) {
  EXPECT_TRUE(Await(absl::OkStatus(), 0).ok());
  EXPECT_EQ(tried_at_.size(), 1u);
}

TEST_F(AwaitAgentTest, ADeviceThatIsMissingIsTriedOnceASecondAndShown) {
  const auto agent = Await(absl::NotFoundError("open InfiniBand device mlx5_0: there is mlx5_1"), 3);
  EXPECT_TRUE(agent.ok()) << agent.status();
  ASSERT_EQ(tried_at_.size(), 4u);
  EXPECT_EQ(shown_, "waiting for the HCA: open InfiniBand device mlx5_0: there is mlx5_1\n");
  for (size_t i = 1; i < tried_at_.size(); ++i) EXPECT_GE(tried_at_[i] - tried_at_[i - 1], absl::Seconds(1));
  EXPECT_LT(tried_at_.back() - tried_at_.front(), absl::Seconds(4));
  (*agent)->RegisterCommands(&commands_);  // "show" among them
}

TEST_F(AwaitAgentTest, WhatWaitingDoesNotHealIsAnErrorAtOnce) {
  for (const absl::Status& error : {absl::InvalidArgumentError("no such form"), absl::FailedPreconditionError("iWARP"),
                                    absl::CancelledError("asked to stop")}) {
    tried_at_.clear();
    EXPECT_EQ(Await(error, 1).status(), error);
    EXPECT_EQ(tried_at_.size(), 1u);
  }
}

TEST_F(AwaitAgentTest, MayBeStoppedWhileItWaits) {
  stop_at_ = clock_.Now() + absl::Minutes(3);
  EXPECT_TRUE(absl::IsCancelled(Await(absl::NotFoundError("open InfiniBand device mlx5_0"), 1'000'000).status()));
  EXPECT_GE(tried_at_.size(), 100u);
}

}  // namespace
}  // namespace eoib
