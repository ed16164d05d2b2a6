// The rules of the vPort protocol about who may speak for an agent, and what a hostile agent can fill, one scenario each.
#include <malloc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "control/protocol/thread_time_for_test.h"
#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(VPortProtocolTest, MessageWithAnotherSenderThanItsSourceIsDropped) {
  StartHosts(2);
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  forged.leaves = true;
  Inject(1, forged, {host(0).gid, Qpn(0x999)});
  EXPECT_EQ(engine(1).counters().wrong_sender, 1u);
  EXPECT_NE(View(0, 1), nullptr);
}

// A member speaks from two queue pairs in turn. Each message replaces the address, and touches none of its MACs: with 20,000 of
// them it costs about the same.
TEST_F(VPortProtocolTest, AddressesThatReplaceEachOtherCostTheSameWithManyMacs) {
  StartHosts(2);
  const PeerAddress other{host(0).gid, Qpn(0x999)};
  const auto cost = [&] {
    absl::Duration least = absl::InfiniteDuration();
    for (int i = 0; i < 20; ++i) {
      VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAlive);
      message.sender = i % 2 == 0 ? other : host(0).address;
      const absl::Duration before = ThreadTime();
      engine(1).Receive(EncodeVPortMessage(message), message.sender, false);
      least = std::min(least, ThreadTime() - before);
      EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(message.sender));
    }
    return least;
  };
  const absl::Duration few = cost();
  for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(engine(0).Claim(Key(i), 1));
  simulation_.Touch(0);
  simulation_.Advance(absl::Seconds(10));
  ASSERT_EQ(events(1).macs.size(), 20'000u);
  EXPECT_LT(cost(), 20 * few);
}

// Parts of a full state may carry lists that a full state does not have. They are not kept.
TEST_F(VPortProtocolTest, PartsAreKeptWithoutForeignLists) {
  StartHosts(2);
  RemoteAgent agent(host(0).id, 1, simulation_.clock().Now());
  VPortMessage part = MessageFrom(0, VPortMessage::Kind::kReply);
  part.version = 5;
  for (int i = 0; i < 500; ++i) part.gone_macs.push_back(Key(i));
  const size_t before = mallinfo2().uordblks;
  std::vector<FdbKey> changed;
  for (uint16_t i = 0; i < 1000; ++i) {
    part.part = VPortMessage::Part{i, RemoteAgent::kMaxParts};
    EXPECT_FALSE(agent.TakePart(part, &changed));
  }
  EXPECT_EQ(agent.size(), 1000u);
  EXPECT_LT(mallinfo2().uordblks - before, 1000u * 1000);  // of the lists: 4 MB. Sanitizers do not count
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

// A member of the partition says from his own port that he is an agent that is silent, as at its restart.
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
  for (const uint32_t jump : {SenderVerifier::kLargestJump + 1, 0x7fff'ffffu, ~0u - host(0).incarnation}) {
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
    for (uint32_t i = 0; i < AgentView::kMaxAddresses; ++i)
      list.addresses[i] = {{host(0).gid, Qpn(100 + 10 * change + i)}, true};
    list.addresses[0] = {list.sender, true};
    Inject(0, list, list.sender);
    simulation_.Advance(absl::Milliseconds(10));
  };
  const absl::Time start = simulation_.clock().Now();
  const uint64_t sent = engine(0).counters().unicast_messages;
  for (uint32_t change = 0; change < 400; ++change) announce(0, change);
  EXPECT_GE(engine(0).counters().unicast_messages - sent, SenderVerifier::kMostAtPort);
  EXPECT_LE(engine(0).counters().unicast_messages - sent, 2 * SenderVerifier::kMostAtPort)
      << "of one port, and a sweep between";

  const uint32_t kPorts = 100;
  for (uint32_t port = 1; port <= kPorts; ++port) announce(port, 0);
  const double seconds = absl::ToDoubleSeconds(simulation_.clock().Now() - start);
  EXPECT_LE(static_cast<double>(engine(0).counters().unicast_messages - sent),
            SenderVerifier::kVerifyBurst + SenderVerifier::kVerifyRate * seconds)
      << "of all";
  simulation_.Advance(absl::Seconds(60));
  EXPECT_GE(engine(0).counters().unicast_messages - sent, kPorts * (AgentView::kMaxAddresses - 1) * RemoteAgent::kVerifications)
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

}  // namespace
}  // namespace eoib
