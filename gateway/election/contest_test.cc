#include "gateway/election/contest.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

using State = Contest::State;
using Reaction = Contest::Reaction;

// At most one gateway stays active, and none that others do not know of stays silent.
TEST(ContestTest, WhoGivesWay) {
  const struct {
    State state;
    Reaction better_active, worse_active, better_candidate, worse_candidate;
  } kRows[] = {
      {State::kListening, Reaction::kGiveWay, Reaction::kGiveWay, Reaction::kGiveWay,
       Reaction::kNone},
      {State::kStandby, Reaction::kGiveWay, Reaction::kGiveWay, Reaction::kGiveWay,
       Reaction::kNone},
      {State::kCandidate, Reaction::kGiveWay, Reaction::kGiveWay, Reaction::kGiveWay,
       Reaction::kObject},
      {State::kSucceeding, Reaction::kGiveWay, Reaction::kGiveWay, Reaction::kObject,
       Reaction::kObject},
      {State::kActive, Reaction::kGiveWay, Reaction::kObject, Reaction::kObject, Reaction::kObject},
  };
  for (const auto& row : kRows) {
    Contest contest;
    contest.Enter(row.state);
    EXPECT_EQ(contest.OnHello(true, true), row.better_active) << StateName(row.state);
    EXPECT_EQ(contest.OnHello(true, false), row.worse_active) << StateName(row.state);
    EXPECT_EQ(contest.OnHello(false, true), row.better_candidate) << StateName(row.state);
    EXPECT_EQ(contest.OnHello(false, false), row.worse_candidate) << StateName(row.state);
  }
}

TEST(ContestTest, ListensToTheEndThenStandsForIt) {
  const absl::Time start = absl::UnixEpoch();
  Contest contest;
  contest.Enter(State::kListening, start + absl::Seconds(1));
  contest.StandBy(start + absl::Milliseconds(500));
  EXPECT_FALSE(contest.Advance(start + absl::Milliseconds(999), absl::Seconds(1)));
  EXPECT_TRUE(contest.Advance(start + absl::Seconds(1), absl::Seconds(1)));
  EXPECT_EQ(contest.state(), State::kCandidate);
  EXPECT_TRUE(contest.Advance(start + absl::Seconds(2), absl::Seconds(1)));
  EXPECT_EQ(contest.state(), State::kActive);
  EXPECT_FALSE(contest.Advance(start + absl::Hours(1), absl::Seconds(1)));
}

}  // namespace
}  // namespace eoib::gateway
