// The rules of the vPort protocol, one scenario each, between a few simulated agents.
#include "control/protocol/vport_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "control/protocol/protocol_simulation_for_test.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

FdbKey Key(int number) { return FdbKey(Vid(10), MacAddr::FromUint64(0x0200'5e10'0000 + number)); }

class VPortProtocolTest : public testing::Test {
 protected:
  // Starts so many hosts, which find each other.
  void StartHosts(size_t count) {
    for (size_t i = 0; i < count; ++i) simulation_.Start(simulation_.AddHost());
    simulation_.Advance(absl::Seconds(2));
  }
  VPortProtocol& engine(size_t host) { return simulation_.engine(host); }
  ProtocolSimulation::Events& events(size_t host) { return simulation_.events(host); }
  const ProtocolSimulation::Host& host(size_t index) { return simulation_.hosts()[index]; }
  void Claim(size_t host, FdbKey key) {
    EXPECT_TRUE(engine(host).Claim(key, 1));
    simulation_.Touch(host);
  }
  // Until all changes are announced.
  void LetAnnounce() { simulation_.Advance(GroupAnnouncer::kAnnounceWithin + absl::Milliseconds(1)); }
  const RemoteAgent* View(size_t of, size_t at) {
    const auto found = engine(at).agents().find(host(of).id);
    return found == engine(at).agents().end() ? nullptr : found->second.get();
  }
  // Whether `at` knows exactly what `of` announces.
  bool Knows(size_t at, size_t of) {
    const RemoteAgent* const view = View(of, at);
    return view != nullptr && view->incarnation() == host(of).incarnation && view->view() == engine(of).own().announced();
  }
  VPortMessage MessageFrom(size_t index, VPortMessage::Kind kind) {
    VPortMessage message = engine(index).own().Header(kind);
    return message;
  }
  void Inject(size_t to, const VPortMessage& message, const PeerAddress& source) {
    engine(to).Receive(EncodeVPortMessage(message), source, false);
    simulation_.Touch(to);
  }

  ProtocolSimulation simulation_{1};
};

TEST_F(VPortProtocolTest, AgentsFindEachOther) {
  StartHosts(3);
  for (size_t at = 0; at < 3; ++at) {
    for (size_t of = 0; of < 3; ++of) {
      if (at == of) continue;
      EXPECT_TRUE(Knows(at, of)) << of << " at " << at;
      EXPECT_THAT(events(at).in_use[host(of).id], ElementsAre(host(of).address));
    }
  }
}

TEST_F(VPortProtocolTest, NewMacIsAnnounced) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  EXPECT_EQ(events(1).macs[Key(1)], (MacClaim{host(0).id, 1}));
}

TEST_F(VPortProtocolTest, ChangesThatComeTogetherAreAnnouncedTogether) {
  StartHosts(2);
  const uint64_t before = engine(0).counters().group_messages;
  for (int i = 0; i < 10; ++i) {
    Claim(0, Key(i));
    simulation_.Advance(absl::Microseconds(10));
  }
  LetAnnounce();
  EXPECT_EQ(engine(0).counters().group_messages, before + 1);
  EXPECT_EQ(events(1).macs.size(), 10u);
}

TEST_F(VPortProtocolTest, AgentsDoNotAnnounceAtTheSameMoment) {
  const size_t kHosts = 50;
  StartHosts(kHosts);
  const uint64_t before = simulation_.traffic().group_messages;
  for (size_t i = 0; i < kHosts; ++i) Claim(i, Key(static_cast<int>(i)));
  simulation_.Advance(GroupAnnouncer::kAnnounceWithin / 2);
  const uint64_t half = simulation_.traffic().group_messages - before;
  EXPECT_GT(half, kHosts / 10);
  EXPECT_LT(half, kHosts - kHosts / 10);
  LetAnnounce();
  EXPECT_EQ(simulation_.traffic().group_messages - before, kHosts);
}

TEST_F(VPortProtocolTest, AnnouncementsAreRateLimited) {
  StartHosts(2);
  const uint64_t before = engine(0).counters().group_messages;
  for (int i = 0; i < 5000; ++i) {
    Claim(0, Key(i));
    simulation_.Advance(absl::Milliseconds(2));
  }
  const uint64_t sent = engine(0).counters().group_messages - before;
  EXPECT_LE(sent, 20 + 10 * 20u) << "a burst of 20, and 20 a second";
  EXPECT_GE(sent, 9 * 20u);
  LetAnnounce();
  simulation_.Advance(absl::Milliseconds(100));
  EXPECT_TRUE(Knows(1, 0)) << "what was delayed is not lost";
}

TEST_F(VPortProtocolTest, ReleasedMacIsFree) {
  StartHosts(2);
  Claim(0, Key(1));
  simulation_.Advance(absl::Seconds(1));
  engine(0).Release(Key(1));
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
}

TEST_F(VPortProtocolTest, ManyMacsArriveInSeveralMessages) {
  StartHosts(2);
  for (int i = 0; i < 1024; ++i) Claim(0, Key(i));
  simulation_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_EQ(events(1).macs.size(), 1024u);
}

TEST_F(VPortProtocolTest, NewcomerLearnsLargeStateInParts) {
  StartHosts(1);
  for (int i = 0; i < 1024; ++i) Claim(0, Key(i));
  simulation_.Advance(absl::Seconds(1));
  simulation_.Start(simulation_.AddHost());
  simulation_.Advance(absl::Seconds(2));
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_EQ(engine(1).counters().full_states, 1u);
}

TEST_F(VPortProtocolTest, MissedAnnouncementIsRequested) {
  StartHosts(2);
  simulation_.network().loss = 1;
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.network().loss = 0;
  EXPECT_FALSE(Knows(1, 0));
  Claim(0, Key(2));  // the next message shows that one is missing
  simulation_.Advance(absl::Milliseconds(200));
  EXPECT_TRUE(Knows(1, 0));
}

TEST_F(VPortProtocolTest, RepetitionRepairsALostLastMessage) {
  StartHosts(2);
  simulation_.network().loss = 1;
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.network().loss = 0;
  simulation_.Advance(absl::Seconds(46));
  EXPECT_TRUE(Knows(1, 0));
}

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

// A holder that is forgotten while it is asked has no MAC any more.
TEST_F(VPortProtocolTest, HolderThatLeavesWhileItIsAsked) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  VPortMessage jump = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  jump.base = jump.version++;
  jump.macs = {{Key(1), 1, 5000}};
  Inject(2, jump, host(1).address);
  VPortMessage leave = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  leave.leaves = true;
  Inject(2, leave, host(0).address);
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

// RFC 7432 §15.2: the address of a router or of an interface does not move because a frame with this source came.
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

TEST_F(VPortProtocolTest, OnlyTheHolderCanSayThatAMacIsNotThere) {
  StartHosts(3);
  Claim(0, Key(1));
  LetAnnounce();
  engine(2).TellNotBehind(Key(1), host(1).address);
  LetAnnounce();
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

TEST_F(VPortProtocolTest, RestartReplacesTheAddressInOneStep) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  const PeerAddress before = host(0).address;
  simulation_.Crash(0);
  simulation_.Start(0);
  LetAnnounce();
  ASSERT_NE(host(0).address, before);
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
}

TEST_F(VPortProtocolTest, RestartWithFewerMacsLeavesNoStaleEntry) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Crash(0);
  simulation_.Start(0);
  simulation_.Advance(absl::Milliseconds(500));
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
  EXPECT_TRUE(Knows(1, 0));
}

TEST_F(VPortProtocolTest, OrderlyStopIsKnownAtOnce) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Stop(0);
  LetAnnounce();
  EXPECT_THAT(events(1).macs, IsEmpty());
  EXPECT_THAT(events(1).in_use, IsEmpty());
  EXPECT_TRUE(engine(1).agents().empty());
}

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

// Its MACs flood while it cannot be reached. After its restart they are behind the new address, also if nothing else changed.
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
  EXPECT_EQ(events(1).macs[Key(1)], (MacClaim{host(0).id, 1}));
}

// An agent whose last address in use is withdrawn cannot be reached, until one that it lists speaks.
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

TEST_F(VPortProtocolTest, MessageWithAnotherSenderThanItsSourceIsDropped) {
  StartHosts(2);
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  forged.leaves = true;
  Inject(1, forged, {host(0).gid, Qpn(0x999)});
  EXPECT_EQ(engine(1).counters().wrong_sender, 1u);
  EXPECT_NE(View(0, 1), nullptr);
}

// Another port says that it is a known agent with a new incarnation: it is believed only after the known one was silent.
TEST_F(VPortProtocolTest, ImpostorAtAnotherPortIsNotBelieved) {
  StartHosts(3);
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  forged.incarnation += 1;
  forged.sender = host(2).address;
  for (int i = 0; i < 10; ++i) {
    Inject(1, forged, host(2).address);
    simulation_.Advance(absl::Seconds(1));
  }
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
  EXPECT_EQ(View(0, 1)->incarnation(), host(0).incarnation);
}

TEST_F(VPortProtocolTest, ImpostorIsNotBelievedBecauseAProbeIsLost) {
  StartHosts(3);
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  forged.incarnation += 1;
  forged.sender = host(2).address;
  simulation_.network().loss = 1;
  Inject(1, forged, host(2).address);
  simulation_.Advance(SenderVerifier::kChallengeProbe - absl::Milliseconds(10));
  simulation_.network().loss = 0;
  simulation_.Advance(absl::Seconds(3));
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
}

TEST_F(VPortProtocolTest, FramesFromTheKnownAddressRefuteAnImpostor) {
  StartHosts(3);
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  forged.incarnation += 1;
  forged.sender = host(2).address;
  simulation_.network().loss = 1;
  Inject(1, forged, host(2).address);
  simulation_.Advance(absl::Milliseconds(1200));
  engine(1).NoteHeard(host(0).address);
  simulation_.Advance(absl::Seconds(1));
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
}

TEST_F(VPortProtocolTest, AgentThatReturnsAtAnotherPortIsBelievedAfterItsOldAddressWasSilent) {
  StartHosts(2);
  simulation_.Crash(0);
  simulation_.hosts()[0].gid = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9999));
  simulation_.Start(0);
  simulation_.Advance(SenderVerifier::kChallenge - absl::Milliseconds(10));
  EXPECT_NE(events(1).in_use[host(0).id], std::vector{host(0).address});
  simulation_.Advance(absl::Milliseconds(100));
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
  EXPECT_TRUE(Knows(1, 0));
}

TEST_F(VPortProtocolTest, ListedAddressIsUsedOnlyAfterItSpoke) {
  StartHosts(2);
  const PeerAddress second{host(0).gid, Qpn(0x777)};
  engine(0).SetAddresses({{host(0).address, true}, {second, false}});
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
  VPortMessage alive = MessageFrom(0, VPortMessage::Kind::kAlive);
  alive.sender = second;
  Inject(1, alive, second);
  EXPECT_EQ(events(1).in_use[host(0).id].size(), 2u);
}

TEST_F(VPortProtocolTest, WithdrawnAddressIsNotUsedAgain) {
  StartHosts(2);
  const PeerAddress second{host(0).gid, Qpn(0x777)};
  engine(0).SetAddresses({{host(0).address, true}, {second, false}});
  simulation_.Touch(0);
  LetAnnounce();
  VPortMessage alive = MessageFrom(0, VPortMessage::Kind::kAlive);
  alive.sender = second;
  Inject(1, alive, second);
  engine(0).SetAddresses({{host(0).address, true}});
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_EQ(engine(1).AgentAt(second), nullptr);
  engine(1).NoteHeard(second);  // a frame that was on its way
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
}

TEST_F(VPortProtocolTest, AgentThatListsAnothersAddressDoesNotGetIt) {
  StartHosts(3);
  VPortMessage thief = MessageFrom(2, VPortMessage::Kind::kAnnounce);
  thief.base = thief.version++;
  thief.addresses = {{host(0).address, true}};
  Inject(1, thief, host(2).address);
  EXPECT_THAT(events(1).in_use[host(2).id], ElementsAre(host(2).address));
  thief = MessageFrom(2, VPortMessage::Kind::kProbe);
  ++thief.incarnation;
  Inject(1, thief, host(2).address);
  ASSERT_NE(engine(1).AgentAt(host(0).address), nullptr);
  EXPECT_EQ(engine(1).AgentAt(host(0).address)->id(), host(0).id);
}

TEST_F(VPortProtocolTest, AddressThatAnotherAgentUsesIsNoLongerTheFormerOnes) {
  StartHosts(2);
  // Host 0's state is lost: it returns with another id, at the same address.
  VPortMessage other = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  other.agent = *AgentId::Parse("000000000000000000000000000000ff");
  other.base = 0;
  other.addresses = {{host(0).address, true}};
  Inject(1, other, host(0).address);
  EXPECT_EQ(engine(1).AgentAt(host(0).address)->id(), other.agent);
  EXPECT_EQ(View(0, 1), nullptr);
}

TEST_F(VPortProtocolTest, CopiedIdIsCounted) {
  StartHosts(2);
  VPortMessage copy = MessageFrom(1, VPortMessage::Kind::kProbe);
  copy.sender = host(0).address;
  Inject(1, copy, host(0).address);
  EXPECT_EQ(engine(1).counters().duplicate_id, 1u);
  EXPECT_THAT(events(1).copies, ElementsAre(host(0).address));
}

// Messages of a queue pair that was replaced may still be on their way.
TEST_F(VPortProtocolTest, OwnMessageOfAFormerQueuePairIsNoCopy) {
  StartHosts(2);
  VPortMessage former = MessageFrom(1, VPortMessage::Kind::kAnnounce);
  former.sender.qpn = Qpn(0x999);
  Inject(1, former, former.sender);
  EXPECT_EQ(engine(1).counters().duplicate_id, 0u);
  EXPECT_THAT(events(1).copies, IsEmpty());
}

TEST_F(VPortProtocolTest, EarlierIncarnationIsStale) {
  StartHosts(2);
  VPortMessage old = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  old.leaves = true;
  simulation_.Crash(0);
  simulation_.Start(0);
  LetAnnounce();
  Inject(1, old, old.sender);
  EXPECT_EQ(engine(1).counters().stale, 1u);
  EXPECT_TRUE(Knows(1, 0));
}

// What a hostile agent can fill.

TEST_F(VPortProtocolTest, AgentHasAFewAddressesAtMost) {
  StartHosts(2);
  VPortMessage alive = MessageFrom(0, VPortMessage::Kind::kAlive);
  for (uint32_t i = 0; i < 1000; ++i) {
    alive.sender = {host(0).gid, Qpn(0x1000 + i)};
    Inject(1, alive, alive.sender);
  }
  EXPECT_EQ(View(0, 1)->addresses().size(), 1u) << "each replaces the one before at its port";
  VPortMessage list = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  list.sender = alive.sender;
  list.base = list.version++;
  for (uint32_t i = 0; i < 1000; ++i) list.addresses.push_back({{host(0).gid, Qpn(0x2000 + i)}, true});
  Inject(1, list, list.sender);
  EXPECT_LE(View(0, 1)->addresses().size(), RemoteAgent::kMaxAddresses);
  EXPECT_GE(View(0, 1)->addresses().size(), AgentView::kMaxAddresses);
}

AgentId MadeUpId(uint32_t number) { return *AgentId::Parse(absl::StrCat("00000000000000000000000", 100000000 + number)); }

TEST_F(VPortProtocolTest, PortThatMakesUpIdsFillsItsOwnShareOnly) {
  StartHosts(2);
  const Gid bad = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000));
  VPortMessage made_up = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  for (uint32_t i = 0; i < 1000; ++i) {
    made_up.agent = MadeUpId(i);
    made_up.sender = {bad, Qpn(0x1000 + i)};
    Inject(1, made_up, made_up.sender);
    simulation_.clock().Advance(absl::Microseconds(1));
  }
  EXPECT_EQ(engine(1).agents().size(), AgentTable::kMaxAtPort + 1);
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_TRUE(engine(1).agents().contains(MadeUpId(999))) << "an agent that starts often without its state is known";
  EXPECT_FALSE(engine(1).agents().contains(MadeUpId(0)));
  EXPECT_EQ(events(1).in_use.size(), AgentTable::kMaxAtPort + 1);
}

// Also if it listed others.
TEST_F(VPortProtocolTest, AgentThatLostItsLastAddressInUseIsForgotten) {
  StartHosts(1);
  const PeerAddress bad{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000)), Qpn(0x1000)};
  VPortMessage made_up = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  made_up.sender = bad;
  made_up.version = 1;
  made_up.base = 0;
  made_up.addresses = {{bad, true}, {{bad.gid, Qpn(0x2000)}, true}};
  for (uint32_t i = 0; i < 100; ++i) {
    made_up.agent = MadeUpId(i);
    Inject(0, made_up, bad);
  }
  EXPECT_EQ(engine(0).agents().size(), 1u);
  EXPECT_TRUE(engine(0).agents().contains(MadeUpId(99)));
}

// The addresses may be another's.
TEST_F(VPortProtocolTest, ProbesOfListedAddressesAreLimited) {
  StartHosts(1);
  VPortMessage list = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  list.addresses.resize(AgentView::kMaxAddresses);
  const auto announce = [&](uint32_t port, uint32_t change) {
    list.agent = MadeUpId(port);
    list.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000 + port)), Qpn(0x1000)};
    list.base = 0;
    list.version = change + 1;
    for (uint32_t i = 0; i < AgentView::kMaxAddresses; ++i) list.addresses[i] = {{host(0).gid, Qpn(100 + 10 * change + i)}, true};
    list.addresses[0] = {list.sender, true};
    Inject(0, list, list.sender);
    simulation_.Advance(absl::Milliseconds(10));
  };
  const absl::Time start = simulation_.clock().Now();
  const uint64_t sent = engine(0).counters().unicast_messages;
  for (uint32_t change = 0; change < 400; ++change) announce(0, change);
  EXPECT_GE(engine(0).counters().unicast_messages - sent, SenderVerifier::kMostAtPort);
  EXPECT_LE(engine(0).counters().unicast_messages - sent, 2 * SenderVerifier::kMostAtPort) << "of one port, and a sweep between";

  const uint32_t kPorts = 100;
  for (uint32_t port = 1; port <= kPorts; ++port) announce(port, 0);
  const double seconds = absl::ToDoubleSeconds(simulation_.clock().Now() - start);
  EXPECT_LE(static_cast<double>(engine(0).counters().unicast_messages - sent),
            SenderVerifier::kVerifyBurst + SenderVerifier::kVerifyRate * seconds)
      << "of all";
  simulation_.Advance(absl::Seconds(60));
  EXPECT_GE(engine(0).counters().unicast_messages - sent,
            kPorts * (AgentView::kMaxAddresses - 1) * RemoteAgent::kVerifications)
      << "what was delayed is not lost";
}

TEST_F(VPortProtocolTest, AllAgentsTogetherHaveSoManyMacsAtMost) {
  StartHosts(1);
  VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  size_t agents = 0, macs = 0;
  while (engine(0).counters().refused_states == 0) {
    ASSERT_LT(++agents, 100u);
    message.agent = *AgentId::Parse(absl::StrCat("000000000000000000000000000000", 10 + agents));
    message.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000 + agents)), Qpn(1)};
    message.addresses = {{message.sender, true}};
    message.version = 0;
    for (int sent = 0; sent < 20; ++sent) {
      message.base = message.version++;
      message.macs.clear();
      for (int i = 0; i < 4000; ++i) message.macs.push_back({Key(sent * 4000 + i), 1, 1});
      Inject(0, message, message.sender);
    }
  }
  for (const auto& [id, agent] : engine(0).agents()) {
    EXPECT_LE(agent->view().macs.size(), AgentView::kMaxMacs);
    macs += agent->view().macs.size();
  }
  EXPECT_LE(macs, AgentTable::kMaxSize);
  EXPECT_GT(macs, AgentTable::kMaxSize - 4000);
  // An agent that leaves makes room.
  message.kind = VPortMessage::Kind::kWithdraw;
  message.macs.clear();
  message.base.reset();
  message.leaves = true;
  Inject(0, message, message.sender);
  const uint64_t refused = engine(0).counters().refused_states;
  simulation_.Start(simulation_.AddHost());
  LetAnnounce();
  EXPECT_TRUE(Knows(0, 1));
  EXPECT_EQ(engine(0).counters().refused_states, refused);
}

TEST_F(VPortProtocolTest, PartsOfStatesAreBounded) {
  StartHosts(1);
  VPortMessage part = MessageFrom(0, VPortMessage::Kind::kReply);
  part.version = 1;
  for (uint32_t i = 0; i < 200; ++i) part.addresses.push_back({{host(0).gid, Qpn(i)}, true});
  for (int agent = 10; agent < 16; ++agent) {
    part.agent = *AgentId::Parse(absl::StrCat("000000000000000000000000000000", agent));
    part.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000 + static_cast<uint64_t>(agent))), Qpn(1)};
    part.part.reset();
    Inject(0, part, part.sender);  // its version is new, so its state is requested
    LetAnnounce();
    part.token = engine(0).agents().at(part.agent)->request_token;
    for (uint16_t index = 0; index < 2000; ++index) {
      part.part = VPortMessage::Part{index, 2001};
      Inject(0, part, part.sender);
    }
  }
  size_t kept = 0;
  for (const auto& [id, agent] : engine(0).agents()) kept += agent->size();
  EXPECT_LE(kept, AgentTable::kMaxSize);
  EXPECT_GT(kept, AgentTable::kMaxSize / 2);
  EXPECT_GT(engine(0).counters().refused_states, 0u);
}

// N agents that start together cost O(N) messages to the group.
TEST_F(VPortProtocolTest, AgentsThatStartTogetherMulticastAFewTimesEach) {
  const size_t kHosts = 300;
  for (size_t i = 0; i < kHosts; ++i) simulation_.AddHost();
  for (size_t i = 0; i < kHosts; ++i) simulation_.Start(i);
  simulation_.Advance(absl::Seconds(3));
  uint64_t group = 0, full_states = 0;
  for (size_t i = 0; i < kHosts; ++i) {
    group += engine(i).counters().group_messages;
    full_states += engine(i).counters().full_states;
  }
  EXPECT_LE(group, 3 * kHosts);
  EXPECT_EQ(full_states, 0u) << "nothing was lost, so nothing is requested";
  EXPECT_LE(simulation_.traffic().unicast_messages, kHosts / 10);
  for (size_t i = 1; i < kHosts; ++i) EXPECT_TRUE(Knows(0, i));
}

// Its first announcement is the answer to all newcomers that it has heard before.
TEST_F(VPortProtocolTest, AgentSaysNothingBeforeItsFirstAnnouncement) {
  StartHosts(1);
  VPortMessage hello = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  hello.agent = *AgentId::Parse("000000000000000000000000000000ff");
  hello.sender = {host(0).gid, Qpn(0x999)};
  hello.version = 0;
  const size_t starting = simulation_.AddHost();
  for (int i = 0; i < 500; ++i) {  // the time of the answer is random
    simulation_.Start(starting);
    engine(starting).Receive(EncodeVPortMessage(hello), hello.sender, true);
    ASSERT_TRUE(simulation_.AdvanceUntil([&] { return engine(starting).counters().group_messages > 0; }, absl::Seconds(1)));
    ASSERT_EQ(engine(starting).counters().unicast_messages, 0u);
    simulation_.Crash(starting);
  }
}

// ---- Round trips and group messages -----------------------------------------------------------------------------------

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
  simulation_.Advance(GroupWatch::kLongestPause + VPortProtocol::kDoubtEvery + VPortProtocol::kSweep);
  EXPECT_FALSE(View(0, 1)->group.IsMissing());
  EXPECT_FALSE(View(1, 0)->group.IsMissing());
}

// An agent whose group messages are needed for nothing, because a flood goes to each agent by unicast.
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
