// The rules of the vPort protocol about liveness, round trips and group messages, one scenario
// each.
#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

using testing::IsEmpty;

TEST_F(VPortProtocolTest, AddressInUseIsLostAfterThreeProbesAndTwoAndAHalfSeconds) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Crash(0);
  const uint64_t sent = engine(1).counters().unicast_messages;
  engine(1).NoteSent(host(0).address);
  simulation_.Touch(1);
  simulation_.Advance(absl::Milliseconds(999));
  EXPECT_EQ(engine(1).counters().unicast_messages, sent);
  simulation_.Advance(absl::Milliseconds(2));
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 1);
  simulation_.Advance(absl::Milliseconds(1498));
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 3);
  EXPECT_TRUE(events(1).macs.contains(Key(1)));
  simulation_.Advance(absl::Milliseconds(2));
  EXPECT_FALSE(events(1).macs.contains(Key(1))) << "its MACs flood";
}

TEST_F(VPortProtocolTest, LostAddressIsBackWithItsFirstFrame) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.hosts()[0].side = 1;
  engine(1).NoteSent(host(0).address);
  simulation_.Touch(1);
  simulation_.Advance(absl::Seconds(3));
  ASSERT_FALSE(events(1).macs.contains(Key(1)));
  engine(1).NoteHeard(host(0).address);
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

// Its MACs flood while it cannot be reached. After its restart they are behind the new address,
// also if nothing else changed.
TEST_F(VPortProtocolTest, LostAgentThatRestartsHasItsMacsAgain) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Crash(0);
  engine(1).NoteSent(host(0).address);
  simulation_.Touch(1);
  simulation_.Advance(absl::Seconds(3));
  ASSERT_FALSE(events(1).macs.contains(Key(1)));
  simulation_.Start(0);
  Claim(0, Key(1));
  LetAnnounce();
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_EQ(events(1).macs[Key(1)], (MacClaim{host(0).id, 1, false, ClaimStage::kTentative}));
}

// An agent whose last address in use is withdrawn cannot be reached, until one that it lists
// speaks.
TEST_F(VPortProtocolTest, AgentWithoutAnAddressInUseHasNoMacs) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  VPortMessage change = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  change.base = change.version++;
  change.gone_addresses = {host(0).address};
  Inject(1, change, host(0).address);
  EXPECT_THAT(events(1).in_use[host(0).id], IsEmpty());
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
}

TEST_F(VPortProtocolTest, NothingIsProbedWhenIdle) {
  StartHosts(3);
  uint64_t sent = 0;
  for (size_t i = 0; i < 3; ++i) sent += engine(i).counters().unicast_messages;
  simulation_.Advance(absl::Minutes(10));
  uint64_t later = 0;
  for (size_t i = 0; i < 3; ++i) later += engine(i).counters().unicast_messages;
  EXPECT_EQ(later, sent);
}

TEST_F(VPortProtocolTest, SilentAgentIsForgotten) {
  StartHosts(2);
  simulation_.Crash(0);
  simulation_.Advance(AgentTable::kForget + VPortProtocol::kSweep);
  EXPECT_TRUE(engine(1).agents().empty());
}

// ---- Round trips and group messages -------------------------------------------------------------

TEST_F(VPortProtocolTest, AgentWithWhichFramesGoBothWaysIsProbedOnceAMinute) {
  StartHosts(2);
  const uint64_t sent = engine(1).counters().unicast_messages;
  for (int i = 0; i < 100; ++i) {
    engine(1).NoteSent(host(0).address);
    engine(1).NoteHeard(host(0).address);
    simulation_.Touch(1);
    simulation_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 2);
  EXPECT_EQ(View(0, 1)->round_trip(), 2 * simulation_.network().latency);
  EXPECT_EQ(View(0, 1)->group.ours(), GroupWatch::Verdict::kHeard);
  EXPECT_FALSE(View(1, 0)->round_trip()) << "it sends nothing itself";
}

TEST_F(VPortProtocolTest, AgentThatOnlySendsToUsIsNotProbed) {
  StartHosts(2);
  const uint64_t sent = engine(1).counters().unicast_messages;
  for (int i = 0; i < 100; ++i) {
    engine(1).NoteHeard(host(0).address);
    simulation_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(engine(1).counters().unicast_messages, sent);
}

// Without any frames. The agent stays known, because it is probed.
TEST_F(VPortProtocolTest, GroupMessagesThatDoNotArriveAreNoticedAtBothEnds) {
  StartHosts(2);
  simulation_.hosts()[0].multicasts = false;
  simulation_.Advance(GroupWatch::kPatience - absl::Seconds(5));
  EXPECT_EQ(View(0, 1)->group.theirs(), GroupWatch::Verdict::kHeard);
  EXPECT_EQ(View(1, 0)->group.ours(), GroupWatch::Verdict::kHeard);
  simulation_.Advance(absl::Minutes(5));
  ASSERT_NE(View(0, 1), nullptr);
  EXPECT_EQ(View(0, 1)->group.theirs(), GroupWatch::Verdict::kMissing);
  EXPECT_EQ(View(0, 1)->group.ours(), GroupWatch::Verdict::kHeard);
  EXPECT_EQ(View(1, 0)->group.ours(), GroupWatch::Verdict::kMissing);
  EXPECT_EQ(View(1, 0)->group.theirs(), GroupWatch::Verdict::kHeard);

  simulation_.hosts()[0].multicasts = true;
  simulation_.Advance(GroupWatch::kLongestPause + VPortProtocol::kDoubtEvery +
                      VPortProtocol::kSweep);
  EXPECT_FALSE(View(0, 1)->group.IsMissing());
  EXPECT_FALSE(View(1, 0)->group.IsMissing());
}

// An agent whose group messages are needed for nothing, because a flood goes to each agent by
// unicast.
TEST_F(VPortProtocolTest, AgentOutsideTheGroupExpectsNoGroupMessages) {
  StartHosts(2);
  for (size_t i = 0; i < 2; ++i) {
    simulation_.hosts()[i].multicasts = false;
    engine(i).SetAddresses({{host(i).address, /*receives_groups=*/false}});
  }
  for (int i = 0; i < 300; ++i) {
    engine(1).NoteSent(host(0).address);
    engine(1).NoteHeard(host(0).address);
    engine(0).NoteHeard(host(1).address);
    for (size_t at = 0; at < 2; ++at) simulation_.Touch(at);
    simulation_.Advance(absl::Seconds(1));
  }
  EXPECT_FALSE(View(0, 1)->group.IsMissing());
  EXPECT_FALSE(View(1, 0)->group.IsMissing());
}

// Its former incarnation was heard long ago, and the flood group was lost meanwhile.
TEST_F(VPortProtocolTest, TimeWithoutTheGroupOrBeforeARestartIsNoEvidence) {
  StartHosts(2);
  engine(1).SetAddresses({});
  for (int i = 0; i < 200; ++i) {
    engine(1).NoteHeard(host(0).address);
    simulation_.Touch(1);
    simulation_.Advance(absl::Seconds(1));
  }
  simulation_.hosts()[0].multicasts = false;
  engine(1).SetAddresses({{host(1).address, true}});
  simulation_.Touch(1);
  simulation_.Advance(GroupWatch::kPatience / 2);
  simulation_.Crash(0);
  simulation_.Start(0);
  engine(1).Discover(host(0).address);
  simulation_.Advance(GroupWatch::kPatience - absl::Seconds(10));
  ASSERT_NE(View(0, 1), nullptr);
  EXPECT_FALSE(View(0, 1)->group.IsMissing());
  simulation_.Advance(absl::Seconds(20));
  EXPECT_TRUE(View(0, 1)->group.IsMissing());
}

}  // namespace
}  // namespace eoib
