// Agents with one id: impostors, and copies of a state directory.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Another port says that it is a known agent with a new incarnation: it is believed only after the
// known one was silent.
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

// A member of the partition says from his own port that he is an agent that is silent, as at its
// restart.
class ImpostorTest : public VPortProtocolTest {
 protected:
  void SetUp() override {
    StartHosts(3);
    EXPECT_TRUE(engine(0).Claim(Key(1), 1, /*sticky=*/true));
    simulation_.Touch(0);
    LetAnnounce();
    ASSERT_EQ(events(1).macs[Key(1)].agent, host(0).id);
    forged_ = MessageFrom(0, VPortMessage::Kind::kAnnounce);
    forged_.sender = {host(2).gid, Qpn(0x999)};
    simulation_.Crash(0);
  }
  void Pretend(uint32_t jump) {
    forged_.incarnation = host(0).incarnation + jump;
    Inject(1, forged_, forged_.sender);
  }
  void AnswerProbe(uint64_t token) {
    VPortMessage alive = forged_;
    alive.kind = VPortMessage::Kind::kAlive;
    alive.token = token;
    Inject(1, alive, alive.sender);
  }
  VPortMessage forged_;
};

TEST_F(ImpostorTest, IsNotBelievedWithoutTheTokenOfOurProbe) {
  for (int i = 0; i < 10; ++i) {
    Pretend(1);
    AnswerProbe(0x1234);
    simulation_.Advance(absl::Seconds(1));
    ASSERT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
    ASSERT_EQ(events(1).macs[Key(1)].agent, host(0).id);
  }
}

TEST_F(ImpostorTest, IsNotBelievedWithAnIncarnationThatNoRestartExplains) {
  for (const uint32_t jump :
       {SenderVerifier::kLargestJump + 1, 0x7fff'ffffu, ~0u - host(0).incarnation}) {
    Pretend(jump);
    EXPECT_FALSE(View(0, 1)->challenge.has_value()) << jump;
  }
  Pretend(SenderVerifier::kLargestJump);
  EXPECT_TRUE(View(0, 1)->challenge.has_value());
}

TEST_F(ImpostorTest, InheritsNoMac) {
  Pretend(1);
  AnswerProbe(View(0, 1)->challenge->token);
  simulation_.Advance(SenderVerifier::kChallenge + absl::Milliseconds(10));
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(forged_.sender));
  EXPECT_FALSE(events(1).macs.contains(Key(1))) << "it floods";
}

// He answers the agents that he wants to deceive, and does not let the true agent hear of him.
TEST_F(ImpostorTest, TheAgentThatReturnsTakesANewId) {
  // A higher incarnation than that of the agent that returns, and the same one.
  for (const uint32_t jump : {500u, 1u}) {
    const AgentId former = host(0).id;
    Pretend(jump);
    AnswerProbe(View(0, 1)->challenge->token);
    simulation_.Advance(SenderVerifier::kChallenge + absl::Milliseconds(10));
    ASSERT_THAT(events(1).in_use[former], ElementsAre(forged_.sender));
    simulation_.Start(0);
    EXPECT_TRUE(engine(0).Claim(Key(1), 1, /*sticky=*/true));
    simulation_.Touch(0);
    for (int i = 0; i < 3000; ++i) {
      simulation_.Advance(absl::Milliseconds(1));
      ReturnToken(1, forged_, forged_.sender);
      const auto mac = events(1).macs.find(Key(1));
      EXPECT_TRUE(mac == events(1).macs.end() || mac->second.agent == host(0).id);
    }
    EXPECT_NE(host(0).id, former);
    EXPECT_TRUE(Knows(1, 0)) << jump;
    EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
    EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
    forged_.agent = host(0).id;  // again, with the new id
    forged_.version = engine(0).own().announced().version;
    simulation_.Crash(0);
  }
}

// The agent did not stop, but was paused, and knows the others.
TEST_F(VPortProtocolTest, AgentThatWasPausedWhileAnImpostorSpokeTakesANewId) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  const AgentId former = host(0).id;
  simulation_.hosts()[0].side = 1;
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  forged.incarnation += 1;
  forged.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000)), Qpn(0x999)};
  for (int i = 0; i < 2000; ++i) {
    if (i == 0) Inject(1, forged, forged.sender);
    simulation_.Advance(absl::Milliseconds(1));
    ReturnToken(1, forged, forged.sender);
  }
  ASSERT_THAT(events(1).in_use[former], ElementsAre(forged.sender));
  ASSERT_FALSE(events(1).macs.contains(Key(1)));
  simulation_.hosts()[0].side = 0;
  Claim(0, Key(2));
  simulation_.Advance(absl::Seconds(3));
  EXPECT_NE(host(0).id, former);
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

// Its answer to the message that tells it is no reason to tell it again.
TEST_F(VPortProtocolTest, AgentWhoseIdIsHeldIsToldForEachMessageOnce) {
  StartHosts(2);
  VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  --message.incarnation;
  message.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000)), Qpn(0x999)};
  const uint64_t sent = engine(1).counters().unicast_messages;
  Inject(1, message, message.sender);
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 1);
  message.kind = VPortMessage::Kind::kAlive;
  Inject(1, message, message.sender);
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 1);
}

// A copy of a state directory: both agents have one id.
class CopyTest : public VPortProtocolTest {
 protected:
  static constexpr size_t kOriginal = 0, kOther = 1;
  void SetUp() override {
    StartHosts(2);
    former_ = host(kOriginal).id;
    Claim(kOriginal, Key(1));
    LetAnnounce();
  }
  // Starts a copy, with an incarnation that is higher than the original's by `more`.
  size_t StartCopy(uint32_t more) {
    const size_t copy = simulation_.AddHost();
    simulation_.hosts()[copy].id = host(kOriginal).id;
    simulation_.hosts()[copy].incarnation = host(kOriginal).incarnation + more - 1;
    simulation_.Start(copy);
    return copy;
  }
  // Its MAC stays at the original's address all the time.
  void ExpectReachable(absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Milliseconds(1)) {
      simulation_.Advance(absl::Milliseconds(1));
      ASSERT_TRUE(events(kOther).macs.contains(Key(1))) << passed;
      ASSERT_THAT(events(kOther).in_use[events(kOther).macs[Key(1)].agent],
                  ElementsAre(host(kOriginal).address));
    }
  }
  AgentId former_;
};

TEST_F(CopyTest, OriginalTakesANewIdAndStaysReachable) {
  const size_t copy = StartCopy(1);
  ExpectReachable(absl::Seconds(5));
  EXPECT_NE(host(kOriginal).id, former_);
  EXPECT_EQ(host(copy).id, former_);
  EXPECT_EQ(events(kOther).macs[Key(1)].agent, host(kOriginal).id);
  EXPECT_TRUE(Knows(kOther, kOriginal));
  EXPECT_TRUE(Knows(copy, kOriginal));
  EXPECT_THAT(events(kOriginal).ids_taken_by, ElementsAre(host(copy).address));
  simulation_.Advance(GroupWatch::kLongestPause);
  EXPECT_TRUE(Knows(kOther, copy));
  EXPECT_TRUE(Knows(kOriginal, copy));
}

TEST_F(CopyTest, OfOneIncarnationThatWithTheHigherGidTakesANewId) {
  const size_t copy = StartCopy(0);
  ExpectReachable(absl::Seconds(5));
  EXPECT_EQ(host(kOriginal).id, former_);
  EXPECT_NE(host(copy).id, former_);
  EXPECT_TRUE(Knows(kOther, kOriginal));
  EXPECT_TRUE(Knows(kOther, copy));
}

// A member of the partition could make us take a new id for ever.
TEST_F(CopyTest, OriginalTakesANewIdOnceInTenMinutes) {
  StartCopy(1);
  simulation_.Advance(absl::Seconds(5));
  const AgentId second = host(kOriginal).id;
  ASSERT_NE(second, former_);
  StartCopy(1);
  simulation_.Advance(absl::Minutes(9));
  ExpectReachable(absl::Milliseconds(10));
  EXPECT_EQ(host(kOriginal).id, second);
  simulation_.Advance(absl::Minutes(2));
  EXPECT_NE(host(kOriginal).id, second);
}

TEST_F(CopyTest, IsNotBelievedWithoutATokenOrFarAhead) {
  VPortMessage message = MessageFrom(kOriginal, VPortMessage::Kind::kAnnounce);
  message.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000)), Qpn(0x999)};
  ++message.incarnation;
  for (int i = 0; i < 3; ++i) {
    Inject(kOriginal, message, message.sender);
    simulation_.Advance(absl::Seconds(2));
  }
  message.incarnation += SenderVerifier::kLargestJump;
  Speak(kOriginal, message, message.sender);
  simulation_.Advance(absl::Seconds(2));
  EXPECT_EQ(host(kOriginal).id, former_);
  message.incarnation -= SenderVerifier::kLargestJump;
  Speak(kOriginal, message, message.sender);
  simulation_.Advance(absl::Seconds(2));
  EXPECT_NE(host(kOriginal).id, former_);
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

}  // namespace
}  // namespace eoib
