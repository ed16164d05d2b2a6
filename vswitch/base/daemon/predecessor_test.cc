#include "vswitch/base/daemon/predecessor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {
namespace {

class PredecessorTest : public ::testing::Test {
 protected:
  // The start finds its resources in use `times` times; each try takes `each`.
  absl::StatusOr<int> Start(int times, absl::Duration each) {
    return StartAfterPredecessor(signals_.get(), &clock_, [&]() -> absl::StatusOr<int> {
      clock_.Advance(each);
      if (++tries_ <= times) return absl::AlreadyExistsError("in use");
      return 42;
    });
  }

  FakeClock clock_;
  UniqueFd signals_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  int tries_ = 0;
};

TEST_F(PredecessorTest, StartsAtOnceWithoutAPredecessor) {
  EXPECT_EQ(*Start(0, absl::Hours(1)), 42);
  EXPECT_EQ(tries_, 1);
}

TEST_F(PredecessorTest, WaitsUntilThePredecessorEnds) {
  EXPECT_EQ(*Start(3, absl::Milliseconds(500)), 42);
  EXPECT_EQ(tries_, 4);
}

TEST_F(PredecessorTest, FailsIfThePredecessorRunsAfterTwoSeconds) {
  EXPECT_EQ(Start(100, absl::Milliseconds(500)).status(), absl::AlreadyExistsError("in use"));
  EXPECT_EQ(tries_, 4);
}

TEST_F(PredecessorTest, ASignalEndsTheWait) {
  const uint64_t one = 1;
  ASSERT_EQ(write(signals_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  EXPECT_EQ(Start(100, absl::ZeroDuration()).status(), absl::AlreadyExistsError("in use"));
  EXPECT_EQ(tries_, 1);
}

TEST_F(PredecessorTest, DoesNotRetryOtherErrors) {
  const auto start = [this]() -> absl::StatusOr<int> {
    ++tries_;
    return absl::UnavailableError("no");
  };
  EXPECT_EQ(StartAfterPredecessor(signals_.get(), &clock_, start).status(),
            absl::UnavailableError("no"));
  EXPECT_EQ(tries_, 1);
}

}  // namespace
}  // namespace eoib
