// The rules of the vPort protocol about announcements, complete views, newcomers, restarts and
// stops, one scenario each.
#include <set>

#include "absl/strings/str_cat.h"
#include "control/protocol/vport_protocol_test_fixture.h"
#include "vswitch/base/sanitizer_for_test.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
  simulation_.Advance(absl::Milliseconds(700));
  EXPECT_TRUE(Knows(1, 0));
}

// A new version is repeated after 0.5, 1.5, 2.5, 4.5 and 7.5 s. Versions that follow each other are
// repeated once a second.
TEST_F(VPortProtocolTest, NewVersionsAreRepeatedOnceASecondAtMost) {
  StartHosts(1);
  simulation_.Advance(absl::Seconds(4));
  const auto repeated_within = [&](absl::Duration time) {
    const uint64_t before = simulation_.traffic().repetitions;
    simulation_.Advance(time);
    return simulation_.traffic().repetitions - before;
  };
  Claim(0, Key(1));
  LetAnnounce();
  EXPECT_EQ(repeated_within(absl::Milliseconds(505)), 1u);
  EXPECT_EQ(repeated_within(absl::Milliseconds(3010)), 2u);
  uint64_t repeated = 0;
  for (int i = 2; i < 42; ++i) {
    Claim(0, Key(i));
    repeated += repeated_within(absl::Milliseconds(600));
  }
  EXPECT_LE(repeated, 24u);
  EXPECT_GE(repeated, 12u);
}

// Each 30 s, plus or minus half.
TEST_F(VPortProtocolTest, EveryAgentRepeatsItsVersion) {
  StartHosts(1);
  simulation_.Advance(absl::Minutes(2));
  uint64_t sent = engine(0).counters().group_messages;
  absl::Time last = simulation_.clock().Now();
  std::set<absl::Duration> pauses;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(simulation_.AdvanceUntil([&] { return engine(0).counters().group_messages > sent; },
                                         absl::Seconds(46)));
    EXPECT_EQ(engine(0).counters().group_messages, ++sent);
    if (i > 0) pauses.insert(simulation_.clock().Now() - last);
    last = simulation_.clock().Now();
  }
  EXPECT_GE(*pauses.begin(), absl::Seconds(15));
  EXPECT_LE(*pauses.rbegin(), absl::Seconds(45) + absl::Milliseconds(1));
  EXPECT_LT(*pauses.begin(), absl::Seconds(20)) << "at random";
  EXPECT_GT(*pauses.rbegin(), absl::Seconds(40));
}

TEST_F(VPortProtocolTest, NewcomerIsAnsweredWithinASecondAtARandomTime) {
  StartHosts(1);
  // It has repeated its version, which answers a newcomer, too.
  simulation_.Advance(absl::Seconds(8));
  std::set<absl::Duration> times;
  for (int i = 0; i < 50; ++i) {
    const size_t newcomer = simulation_.AddHost();
    simulation_.Start(newcomer);
    simulation_.Advance(absl::Milliseconds(21));  // it has announced itself
    const absl::Time start = simulation_.clock().Now();
    const uint64_t multicast = engine(0).counters().group_messages;
    // Round trips, before the time begins.
    const absl::Duration proof = 4 * simulation_.network().latency;
    ASSERT_TRUE(simulation_.AdvanceUntil([&] { return Knows(newcomer, 0); },
                                         GroupAnnouncer::kAnswerWithin + proof));
    times.insert(simulation_.clock().Now() - start);
    if (engine(0).counters().group_messages == multicast) {
      EXPECT_EQ(engine(newcomer).counters().full_states, 0u) << "it need not ask";
    }
    simulation_.Advance(absl::Seconds(1));
    simulation_.Stop(newcomer);
  }
  EXPECT_LT(*times.begin(), absl::Milliseconds(200));
  EXPECT_GT(*times.rbegin(), absl::Milliseconds(800));
}

class MadeUpNewcomersTest : public VPortProtocolTest {
 protected:
  // A message to the group in the name of an agent, from port `port`.
  void Speak(uint64_t id, uint32_t incarnation, uint64_t port) {
    VPortMessage message;
    message.kind = VPortMessage::Kind::kAnnounce;
    AgentId::Bytes bytes{};
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(id >> (8 * i));
    bytes[15] = 1;
    message.agent = AgentId(bytes);
    message.incarnation = incarnation;
    message.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9'0000 + port)),
                      Qpn(0x77)};
    engine(0).Receive(EncodeVPortMessage(message), message.sender, /*by_group=*/true);
    simulation_.Touch(0);
    simulation_.Advance(absl::Milliseconds(50));
  }
  // The most messages to the group within a minute: repetitions, and answers to newcomers.
  static constexpr uint64_t kRepetitions = GroupAnnouncer::kRepeatNew.size() + 1,
                            kAnswers = GroupAnnouncer::kGroupAnswers + 6;
};

TEST_F(MadeUpNewcomersTest, MakeAnAgentSpeakToTheGroupRarely) {
  StartHosts(1);
  const uint64_t before = engine(0).counters().group_messages;
  for (uint64_t i = 0; i < 60 * 20; ++i) Speak(1 + i, 1, i);
  EXPECT_LE(engine(0).counters().group_messages - before, kRepetitions + kAnswers);
}

TEST_F(MadeUpNewcomersTest, AtOnePortGetTheStateOnceAMinute) {
  StartHosts(1);
  for (int mac = 0; mac < 20; ++mac) Claim(0, Key(mac));
  simulation_.Advance(absl::Seconds(1));
  const uint64_t group = engine(0).counters().group_messages, bytes = simulation_.traffic().bytes;
  for (uint32_t i = 0; i < 60 * 20; ++i) Speak(1, 1 + i, 0);
  EXPECT_LE(engine(0).counters().group_messages - group, kRepetitions)
      << "a new incarnation each time";
  EXPECT_LE(simulation_.traffic().bytes - bytes, 2 * 500 + 150 * VPortMessage::kHeaderSize)
      << "the version is enough";
}

TEST_F(VPortProtocolTest, AnAskerDoesNotTakeTheOthersShare) {
  StartHosts(3);
  VPortMessage request = MessageFrom(1, VPortMessage::Kind::kRequest);
  request.wants_full_state = true;
  const uint64_t first = engine(0).counters().unicast_messages;
  for (int i = 0; i < 1000; ++i) {
    Inject(0, request, host(1).address);
    engine(0).Run();
  }
  const uint64_t before = engine(0).counters().unicast_messages;
  EXPECT_LE(static_cast<double>(before - first), StateSender::kBurst);
  request = MessageFrom(2, VPortMessage::Kind::kRequest);
  request.wants_full_state = true;
  Inject(0, request, host(2).address);
  simulation_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(engine(0).counters().unicast_messages, before + 1);
}

// Two each second, so that the budget for answers to the group is used up.
TEST_F(VPortProtocolTest, NewcomersBeyondTheBudgetLearnTheStateByRequest) {
  StartHosts(3);
  for (int mac = 0; mac < 20; ++mac) Claim(0, Key(mac));
  for (int second = 0; second < 15; ++second) {
    for (int i = 0; i < 2; ++i) simulation_.Start(simulation_.AddHost());
    simulation_.Advance(absl::Milliseconds(1300));
    const size_t last = simulation_.hosts().size() - 1;
    EXPECT_TRUE(Knows(last, 0) && Knows(last - 1, 0) && Knows(last, 1)) << second;
  }
}

TEST_F(VPortProtocolTest, OwnGroupMessageAnswersANewcomer) {
  StartHosts(1);
  const uint64_t unicast = engine(0).counters().unicast_messages;
  for (int i = 0; i < 20; ++i) {
    VPortMessage hello = MessageFrom(0, VPortMessage::Kind::kAnnounce);
    hello.agent = *AgentId::Parse(absl::StrCat("000000000000000000000000000000", 10 + i));
    hello.sender = {
        Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000 + static_cast<uint64_t>(i))),
        Qpn(1)};
    hello.version = 0;
    engine(0).Receive(EncodeVPortMessage(hello), hello.sender, /*by_group=*/true);
    engine(0).Run();
    ReturnToken(0, hello, hello.sender);
    engine(0).Claim(Key(i), 1);
    simulation_.Touch(0);
    simulation_.Advance(absl::Seconds(2));
  }
  EXPECT_LE(engine(0).counters().unicast_messages, unicast + 20 + 3)
      << "the Probes, and an answer only if it was due before the announcement";
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

// As soon as it has left three Probes unanswered.
TEST_F(VPortProtocolTest, OrderlyStopIsKnownSoon) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  simulation_.Stop(0);
  simulation_.Advance(SenderVerifier::kDeparture + absl::Milliseconds(1));
  EXPECT_THAT(events(1).macs, IsEmpty());
  EXPECT_THAT(events(1).in_use, IsEmpty());
  EXPECT_TRUE(engine(1).agents().empty());
}

// As an agent whose last vPort in a VES is removed, and which gets another one later.
TEST_F(VPortProtocolTest, AgentThatLeftReturnsInTheSameRun) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  const VPortMessage late = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  for (int round = 0; round < 3; ++round) {
    engine(0).Leave();
    simulation_.Touch(0);
    simulation_.Advance(absl::Milliseconds(400));
    EXPECT_TRUE(engine(1).agents().empty());
    Inject(1, late, late.sender);
    simulation_.Advance(absl::Milliseconds(10));
    EXPECT_TRUE(engine(1).agents().empty())
        << "a message that was on its way does not bring it back";
    engine(0).SetAddresses({{host(0).address, true}});
    simulation_.Touch(0);
    simulation_.Advance(absl::Milliseconds(500));
    EXPECT_TRUE(Knows(1, 0));
    EXPECT_TRUE(events(1).macs.contains(Key(1)));
  }
}

// It has no time to become silent.
TEST_F(VPortProtocolTest, AgentThatLeftReturnsWithinATenthOfASecond) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  for (const int pause : {1, 99, 199, 299, 301}) {
    engine(0).Leave();
    simulation_.Touch(0);
    simulation_.Advance(absl::Milliseconds(pause));
    engine(0).SetAddresses({{host(0).address, true}});
    simulation_.Touch(0);
    simulation_.Advance(absl::Milliseconds(500));
    EXPECT_TRUE(Knows(1, 0)) << pause;
    EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id) << pause;
    simulation_.Advance(absl::Seconds(1));
    EXPECT_TRUE(Knows(1, 0)) << pause;
  }
}

TEST_F(VPortProtocolTest, AgentThatStopsRestartsWithinATenthOfASecond) {
  StartHosts(2);
  Claim(0, Key(1));
  LetAnnounce();
  for (const int pause : {0, 1, 99, 299}) {
    simulation_.Stop(0);
    simulation_.Advance(absl::Milliseconds(pause));
    simulation_.Start(0);
    Claim(0, Key(1));
    LetAnnounce();
    EXPECT_TRUE(Knows(1, 0)) << pause;
    EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
    EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id) << pause;
    simulation_.Advance(absl::Seconds(1));
    EXPECT_TRUE(Knows(1, 0)) << pause;
  }
}

// Each queue of an agent has an address. It is used once a probe was answered from there.
TEST_F(VPortProtocolTest, EachQueueAnswersProbesFromItsOwnAddress) {
  StartHosts(2);
  const PeerAddress second = simulation_.AddAddress(0), third = simulation_.AddAddress(0);
  simulation_.Advance(absl::Seconds(3));
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_THAT(View(0, 1)->InUse(), testing::UnorderedElementsAre(host(0).address, second, third));
  EXPECT_EQ(0u, engine(1).counters().wrong_sender);
}

// A probe to an address that the agent has given up proves nothing.
TEST_F(VPortProtocolTest, ANewAddressIsNotUsedWhileItIsSilent) {
  StartHosts(2);
  engine(0).SetAddresses({{host(0).address, true}, {{host(0).gid, Qpn(0x99)}, false}});
  simulation_.Touch(0);
  simulation_.Advance(absl::Seconds(10));
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_THAT(View(0, 1)->InUse(), testing::ElementsAre(host(0).address));
}

// N agents that start together cost O(N) messages to the group, besides the headers that repeat a
// new version.
TEST_F(VPortProtocolTest, AgentsThatStartTogetherMulticastAFewTimesEach) {
  const size_t kHosts = kSanitized ? 100 : 300;
  for (size_t i = 0; i < kHosts; ++i) simulation_.AddHost();
  for (size_t i = 0; i < kHosts; ++i) simulation_.Start(i);
  simulation_.Advance(absl::Seconds(3));
  uint64_t full_states = 0;
  for (size_t i = 0; i < kHosts; ++i) full_states += engine(i).counters().full_states;
  EXPECT_LE(simulation_.traffic().group_messages, 3 * kHosts);
  EXPECT_LE(simulation_.traffic().repetitions, GroupAnnouncer::kRepeatNew.size() * kHosts);
  EXPECT_EQ(full_states, 0u) << "nothing was lost, so nothing is requested";
  EXPECT_LE(simulation_.traffic().unicast_messages, 2 * kHosts * (kHosts - 1) + kHosts / 10)
      << "each proves its address to each";
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
    engine(starting).Run();
    ReturnToken(starting, hello, hello.sender);
    ASSERT_TRUE(simulation_.AdvanceUntil(
        [&] { return engine(starting).counters().group_messages > 0; }, absl::Seconds(1)));
    ASSERT_EQ(engine(starting).counters().unicast_messages, 1u) << "the Probe";
    simulation_.Crash(starting);
  }
}

}  // namespace
}  // namespace eoib
