// The rules of the vPort protocol about claims of MACs, one scenario each.
#include <utility>

#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

using testing::ElementsAre;

TEST_F(VPortProtocolTest, LateMoverTakesTheHighestSequencePlusOne) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  Claim(1, Key(1));
  LetAnnounce();
  EXPECT_EQ(events(2).macs[Key(1)], (MacClaim{host(1).id, 2}));
  EXPECT_EQ(events(0).macs[Key(1)], (MacClaim{host(1).id, 2}));
  EXPECT_EQ(events(0).claims_lost[Key(1)], 1);
  EXPECT_FALSE(engine(0).own().current().macs.contains(Key(1)));
}

TEST_F(VPortProtocolTest, TieGoesToTheLowerAgentId) {
  StartHosts(3);
  Claim(0, Key(1));
  Claim(1, Key(1));
  LetAnnounce();
  const size_t winner = host(0).id < host(1).id ? 0 : 1;
  EXPECT_EQ(events(2).macs[Key(1)], (MacClaim{host(winner).id, 1}));
  EXPECT_EQ(events(1 - winner).claims_lost[Key(1)], 1);
  EXPECT_EQ(events(winner).claims_lost[Key(1)], 0);
}

TEST_F(VPortProtocolTest, LaterOfTwoClaimantsStopsAfterFiveLostClaims) {
  StartHosts(2);
  Claim(0, Key(1));
  simulation_.Advance(absl::Milliseconds(100));
  int later = 0;
  while (engine(1).Claim(Key(1), 1) && later < 100) {
    ++later;
    simulation_.Touch(1);
    simulation_.Advance(absl::Milliseconds(500));
    Claim(0, Key(1));
    simulation_.Advance(absl::Milliseconds(500));
  }
  EXPECT_EQ(later, 5);
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
  EXPECT_GE(events(0).duplicates, 1);
  EXPECT_GE(events(1).duplicates, 1);
  simulation_.Advance(ClaimArbiter::kWindow);
  EXPECT_TRUE(engine(1).Claim(Key(1), 1));
}

TEST_F(VPortProtocolTest, MigrationAndReturnIsNoDuplicate) {
  StartHosts(2);
  for (int i = 0; i < 4; ++i) {
    Claim(i % 2, Key(1));
    simulation_.Advance(absl::Seconds(10));
  }
  EXPECT_EQ(events(0).duplicates + events(1).duplicates, 0);
}

// A claim far above the holder's counts only if the holder is silent.
TEST_F(VPortProtocolTest, JumpOfTheSequenceIsCheckedWithTheHolder) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  VPortMessage jump = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  jump.base = jump.version;
  ++jump.version;
  jump.macs = {{Key(1), 1, 5000}};
  Inject(2, jump, host(1).address);
  simulation_.Advance(absl::Milliseconds(299));
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
  LetAnnounce();
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id) << "the holder has answered";
}

TEST_F(VPortProtocolTest, JumpOfTheSequenceCountsWhenTheHolderIsSilent) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Crash(0);
  VPortMessage jump = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  jump.base = jump.version;
  ++jump.version;
  jump.macs = {{Key(1), 1, 5000}};
  Inject(2, jump, host(1).address);
  simulation_.Advance(absl::Milliseconds(299));
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
  simulation_.Advance(absl::Milliseconds(2));
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(1).id);
}

// The holder's patience is not prolonged by further claims.
TEST_F(VPortProtocolTest, RepeatedJumpsAreDecidedAfterTheFirstOnes300Ms) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Crash(0);
  VPortMessage jump = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  for (uint32_t i = 0; i < 3; ++i) {
    jump.base = jump.version++;
    jump.macs = {{Key(1), 1, 5000 + i}};
    Inject(2, jump, host(1).address);
    simulation_.Advance(absl::Milliseconds(99));
  }
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
  simulation_.Advance(absl::Milliseconds(5));
  EXPECT_EQ(events(2).macs[Key(1)], (MacClaim{host(1).id, 5002}));
}

TEST_F(VPortProtocolTest, QuestionThatIsLostIsRepeated) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.network().loss = 1;
  engine(1).Contest(Key(1));
  simulation_.Touch(1);
  simulation_.Advance(absl::Milliseconds(50));
  simulation_.network().loss = 0;
  simulation_.Advance(absl::Seconds(1));
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

TEST_F(VPortProtocolTest, LateAnswerGivesTheMacBack) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.network().latency = absl::Milliseconds(200);
  engine(1).Contest(Key(1));
  simulation_.Touch(1);
  simulation_.Advance(absl::Milliseconds(350));
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
  simulation_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

// All answers may be lost, as in a storm. A holder announces its claim once, so nothing else would
// bring it back.
TEST_F(VPortProtocolTest, HolderOfAFreedMacIsAskedAgain) {
  StartHosts(2);
  Claim(0, Key(1));
  Claim(0, Key(2));
  LetAnnounce();
  simulation_.network().loss = 1;
  for (const FdbKey key : {Key(1), Key(2)}) engine(1).Contest(key);
  simulation_.Touch(1);
  simulation_.Advance(absl::Seconds(1));
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
  engine(0).Release(Key(2));
  simulation_.Touch(0);
  simulation_.Advance(absl::Seconds(1));
  simulation_.network().loss = 0;
  simulation_.Advance(ClaimArbiter::kAskAgain);
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
  EXPECT_FALSE(events(1).macs.contains(Key(2)));
}

// A holder that is forgotten while it is asked has no MAC any more.
TEST_F(VPortProtocolTest, HolderThatLeavesWhileItIsAsked) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  VPortMessage jump = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  jump.base = jump.version++;
  jump.macs = {{Key(1), 1, 5000}};
  simulation_.Stop(0);
  simulation_.Advance(absl::Milliseconds(100));
  Inject(2, jump, host(1).address);
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
  simulation_.Advance(SenderVerifier::kDeparture - absl::Milliseconds(99));
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(1).id);
  simulation_.Advance(absl::Seconds(1));
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(1).id);
}

// Until the others know, frames for the MAC go astray.
TEST_F(VPortProtocolTest, MoveIsAnnouncedAtOnce) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  Claim(1, Key(1));
  simulation_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(1).id);
}

// RFC 7432 §15.2: the address of a router or of an interface does not move because a frame with
// this source came.
TEST_F(VPortProtocolTest, StickyMacDoesNotMove) {
  StartHosts(3);
  ASSERT_TRUE(engine(0).Claim(Key(1), 1, /*sticky=*/true));
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_FALSE(engine(1).Claim(Key(1), 1));
  LetAnnounce();
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
  EXPECT_TRUE(events(2).macs[Key(1)].sticky);
  EXPECT_TRUE(engine(0).own().current().macs.contains(Key(1)));
}

TEST_F(VPortProtocolTest, StickyMacDoesNotMoveToAnotherStickyPlace) {
  StartHosts(3);
  ASSERT_TRUE(engine(0).Claim(Key(1), 1, /*sticky=*/true));
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_FALSE(engine(1).Claim(Key(1), 1, /*sticky=*/true));
  LetAnnounce();
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
}

TEST_F(VPortProtocolTest, StickyClaimDisplacesOthersOfAnySequence) {
  StartHosts(3);
  VPortMessage other = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  other.base = other.version++;
  other.macs = {{Key(1), 1, 5000}};
  Inject(2, other, host(1).address);
  ASSERT_EQ(events(2).macs[Key(1)].agent, host(1).id);
  ASSERT_TRUE(engine(0).Claim(Key(1), 1, /*sticky=*/true));
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_EQ(events(2).macs[Key(1)].agent, host(0).id);
}

// The last sequence number cannot be exceeded; then the lower agent id holds.
TEST_F(VPortProtocolTest, ClaimAgainstTheLastSequenceNumberDoesNotWrapAround) {
  StartHosts(2);
  for (size_t claimant : {0, 1}) {
    VPortMessage last = MessageFrom(1 - claimant, VPortMessage::Kind::kAnnounce);
    last.base = last.version++;
    last.macs = {{Key(static_cast<int>(claimant)), 1, 0xffffffff}};
    Inject(claimant, last, host(1 - claimant).address);
    const bool wins = host(claimant).id < host(1 - claimant).id;
    const FdbKey key = Key(static_cast<int>(claimant));
    EXPECT_EQ(engine(claimant).Claim(key, 1), wins);
    EXPECT_EQ(engine(claimant).own().current().macs.contains(key), wins);
    EXPECT_EQ(engine(claimant).Holder(key)->sequence, 0xffffffff);
  }
}

TEST_F(VPortProtocolTest, AnswerAboutManyMacsFitsTheMtu) {
  StartHosts(2);
  VPortMessage request = MessageFrom(0, VPortMessage::Kind::kRequest);
  for (int i = 0; i < 240; ++i) {
    Claim(1, Key(i));
    request.wanted_macs.push_back(Key(i));
  }
  LetAnnounce();
  ASSERT_LE(EncodedSize(request), 2000u);
  const uint64_t before = engine(1).counters().unicast_messages;
  Inject(1, request, host(0).address);
  EXPECT_EQ(engine(1).counters().unicast_messages, before + 2);
  EXPECT_LE(simulation_.traffic().largest, 2000u);
}

// A question has the silence of a station checked. One member must not have all idle stations
// withdrawn.
TEST_F(VPortProtocolTest, AnAgentQuestionsFewMacsASecond) {
  StartHosts(2);
  VPortMessage request = MessageFrom(0, VPortMessage::Kind::kRequest);
  for (int i = 0; i < 200; ++i) {
    Claim(1, Key(i));
    request.wanted_macs.push_back(Key(i));
  }
  LetAnnounce();
  constexpr int kSeconds = 30;
  for (int i = 0; i < 2 * kSeconds; ++i) {
    Inject(1, request, host(0).address);
    simulation_.Advance(absl::Milliseconds(500));
  }
  EXPECT_GE(events(1).questioned, RemoteAgent::kQuestionBurst);
  EXPECT_LE(events(1).questioned,
            RemoteAgent::kQuestionBurst + kSeconds * RemoteAgent::kQuestionRate);
}

TEST_F(VPortProtocolTest, AStickyMacIsNotQuestioned) {
  StartHosts(2);
  ClaimConfigured(1, Key(1));
  VPortMessage request = MessageFrom(0, VPortMessage::Kind::kRequest);
  request.wanted_macs = {Key(1)};
  Inject(1, request, host(0).address);
  EXPECT_EQ(events(1).questioned, 0);
}

TEST_F(VPortProtocolTest, ContestedMacStaysIfItsHolderAnswers) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  engine(1).Contest(Key(1));
  simulation_.Touch(1);
  simulation_.Advance(absl::Seconds(1));
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

TEST_F(VPortProtocolTest, ContestedMacIsFreeAfter300MsOfSilence) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Crash(0);
  engine(1).Contest(Key(1));
  simulation_.Touch(1);
  simulation_.Advance(absl::Milliseconds(299));
  EXPECT_TRUE(events(1).macs.contains(Key(1)));
  simulation_.Advance(absl::Milliseconds(2));
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
}

TEST_F(VPortProtocolTest, ReceiverOfMisdirectedFramesTellsTheSender) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  engine(0).TellNotBehind(Key(1), host(1).address);
  LetAnnounce();
  EXPECT_THAT(events(1).not_behind, ElementsAre(std::pair(Key(1), host(0).id)));
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
}

TEST_F(VPortProtocolTest, HintsThatAMacIsNotHereAreRateLimited) {
  StartHosts(2);
  const uint64_t before = engine(0).counters().unicast_messages;
  for (int i = 0; i < 1000; ++i) {
    engine(0).TellNotBehind(Key(i), host(1).address);
    simulation_.clock().Advance(absl::Milliseconds(1));
  }
  EXPECT_LE(engine(0).counters().unicast_messages, before + 20 + 100)
      << "a burst of 20, and 100 a second";
  EXPECT_GE(engine(0).counters().unicast_messages, before + 100);
}

TEST_F(VPortProtocolTest, OnlyTheHolderCanSayThatAMacIsNotThere) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  engine(2).TellNotBehind(Key(1), host(1).address);
  LetAnnounce();
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

// A unicast reply that an announcement has overtaken.
TEST_F(VPortProtocolTest, LateNotBehindDoesNotFreeAMacThatWasAnnouncedSince) {
  StartHosts(2);
  VPortMessage late = MessageFrom(0, VPortMessage::Kind::kReply);
  late.gone_macs = {Key(1)};
  Claim(0, Key(1));
  LetAnnounce();
  ASSERT_TRUE(events(1).macs.contains(Key(1)));
  Inject(1, late, host(0).address);
  EXPECT_TRUE(events(1).macs.contains(Key(1)));
  VPortMessage fresh = MessageFrom(0, VPortMessage::Kind::kReply);
  fresh.gone_macs = {Key(1)};
  Inject(1, fresh, host(0).address);
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
}

}  // namespace
}  // namespace eoib
