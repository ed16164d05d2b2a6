#include "control/protocol/claim_poll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ClaimPollTest : public testing::Test {
 protected:
  static AgentId Id(uint8_t number) {
    AgentId::Bytes bytes{};
    bytes[0] = number;
    return AgentId(bytes);
  }
  static Gid Port(uint64_t number) {
    return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(number));
  }
  // Whether a poll with these votes, of ports 1, 2 and so on, is lost.
  bool Loses(const AgentId& rival, const std::vector<bool>& against) {
    ClaimPoll poll(&own_, &clock_);
    poll.Add(Key(1), rival);
    clock_.Advance(ClaimPoll::kPatience);
    EXPECT_THAT(poll.TakeQuestions(), ElementsAre(Key(1)));
    for (size_t i = 0; i < against.size(); ++i) poll.OnVote(Key(1), Port(i), against[i]);
    EXPECT_THAT(poll.TakeLost(), IsEmpty());
    clock_.Advance(ClaimPoll::kPatience);
    return !poll.TakeLost().empty();
  }

  FakeClock clock_;
  const AgentId own_ = Id(5);
};

TEST_F(ClaimPollTest, TheMajorityOfPortsDecides) {
  const struct {
    const char* description;
    std::vector<bool> against;
    bool loses_to_lower, loses_to_higher;
  } kRows[] = {
      {"no answer", {}, false, false},
      {"the rival alone", {true}, false, false},
      {"the rival, and one for us", {true, false}, false, false},
      {"the rival, and one for it", {true, true}, true, true},
      {"as many for both", {true, true, false}, true, false},
      {"more for us", {true, true, false, false}, false, false},
      {"more for the rival", {true, true, true, false}, true, true},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Loses(Id(1), row.against), row.loses_to_lower) << row.description;
    EXPECT_EQ(Loses(Id(9), row.against), row.loses_to_higher) << row.description;
  }
}

TEST_F(ClaimPollTest, APortVotesOnce) {
  ClaimPoll poll(&own_, &clock_);
  poll.Add(Key(1), Id(1));
  clock_.Advance(ClaimPoll::kPatience);
  poll.TakeQuestions();
  for (int i = 0; i < 16; ++i) poll.OnVote(Key(1), Port(1), true);
  for (uint64_t port : {2, 3}) poll.OnVote(Key(1), Port(port), false);
  clock_.Advance(ClaimPoll::kPatience);
  EXPECT_THAT(poll.TakeLost(), IsEmpty());
}

TEST_F(ClaimPollTest, APollIsRepeatedWhileTheDisputeLasts) {
  ClaimPoll poll(&own_, &clock_);
  EXPECT_EQ(poll.NextDeadline(), absl::InfiniteFuture());
  poll.Add(Key(1), Id(1));
  poll.OnVote(Key(1), Port(1), true);  // before it was asked for: does not count
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(poll.NextDeadline() - clock_.Now());
    EXPECT_THAT(poll.TakeQuestions(), ElementsAre(Key(1)));
    EXPECT_THAT(poll.TakeQuestions(), IsEmpty());
    clock_.Advance(poll.NextDeadline() - clock_.Now());
    EXPECT_THAT(poll.TakeLost(), IsEmpty());
  }
  poll.Remove(Key(1));
  EXPECT_EQ(poll.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(ClaimPollTest, AllOfManyMacsHaveTheirTurn) {
  ClaimPoll poll(&own_, &clock_);
  for (int i = 0; i < 300; ++i) poll.Add(Key(i), Id(1));
  std::vector<int> asked(300);
  for (int round = 0; round < 3; ++round) {
    clock_.Advance(ClaimPoll::kPollEvery);
    const std::vector<FdbKey> keys = poll.TakeQuestions();
    EXPECT_EQ(keys.size(), ClaimPoll::kMaxMacs);
    for (int i = 0; i < 300; ++i)
      asked[static_cast<size_t>(i)] += std::count(keys.begin(), keys.end(), Key(i)) != 0;
    clock_.Advance(ClaimPoll::kPatience);
    poll.TakeLost();
  }
  EXPECT_THAT(asked, testing::Each(testing::Ge(1)));
}

}  // namespace
}  // namespace eoib
