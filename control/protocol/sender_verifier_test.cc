// The rules of the vPort protocol about who may speak for an agent, and what a hostile agent can
// fill, one scenario each.
#include <malloc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "control/protocol/thread_time_for_test.h"
#include "control/protocol/vport_protocol_test_fixture.h"
#include "vswitch/base/sanitizer_for_test.h"

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

// A member speaks from two queue pairs in turn. Each message replaces the address, and touches none
// of its MACs: with 20,000 of them it costs about the same.
TEST_F(VPortProtocolTest, AddressesThatReplaceEachOtherCostTheSameWithManyMacs) {
  StartHosts(2);
  const PeerAddress addresses[] = {{host(0).gid, Qpn(0x998)}, {host(0).gid, Qpn(0x999)}};
  const auto cost = [&] {
    absl::Duration least = absl::InfiniteDuration();
    for (int i = 0; i < 20; ++i) {
      VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAlive);
      message.sender = addresses[i % 2];
      const absl::Duration before = ThreadTime();
      Speak(1, message, message.sender);
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

TEST_F(VPortProtocolTest, ListedAddressIsUsedOnlyAfterItReturnedAToken) {
  StartHosts(2);
  const PeerAddress second{host(0).gid, Qpn(0x777)};
  engine(0).SetAddresses({{host(0).address, true}, {second, false}});
  simulation_.Touch(0);
  LetAnnounce();
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
  VPortMessage alive = MessageFrom(0, VPortMessage::Kind::kAlive);
  alive.sender = second;
  alive.token = 0x1234;
  Inject(1, alive, second);
  EXPECT_EQ(events(1).in_use[host(0).id].size(), 1u) << "it was not our token";
  ReturnToken(1, alive, second);
  EXPECT_EQ(events(1).in_use[host(0).id].size(), 2u);
}

TEST_F(VPortProtocolTest, FramesFromAListedAddressAreNoToken) {
  StartHosts(2);
  const PeerAddress second{host(0).gid, Qpn(0x777)};
  engine(0).SetAddresses({{host(0).address, true}, {second, false}});
  simulation_.Touch(0);
  LetAnnounce();
  engine(1).NoteHeard(second);
  EXPECT_EQ(engine(1).AgentAt(second), nullptr);
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
}

TEST_F(VPortProtocolTest, WithdrawnAddressIsNotUsedAgain) {
  StartHosts(2);
  const PeerAddress second{host(0).gid, Qpn(0x777)};
  engine(0).SetAddresses({{host(0).address, true}, {second, false}});
  simulation_.Touch(0);
  LetAnnounce();
  VPortMessage alive = MessageFrom(0, VPortMessage::Kind::kAlive);
  alive.sender = second;
  ReturnToken(1, alive, second);
  ASSERT_EQ(events(1).in_use[host(0).id].size(), 2u);
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
  const PeerAddress address = host(0).address;
  VPortMessage other = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  other.agent = *AgentId::Parse("000000000000000000000000000000ff");
  other.base = 0;
  other.addresses = {{address, true}};
  simulation_.Crash(0);
  Speak(1, other, address);
  EXPECT_EQ(engine(1).AgentAt(address)->id(), other.agent);
  EXPECT_EQ(View(0, 1), nullptr);
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
    Speak(1, alive, alive.sender);
  }
  EXPECT_EQ(View(0, 1)->addresses().size(), 1u) << "each replaces the one before at its port";
  VPortMessage list = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  list.sender = alive.sender;
  list.base = list.version++;
  for (uint32_t i = 0; i < 1000; ++i)
    list.addresses.push_back({{host(0).gid, Qpn(0x2000 + i)}, true});
  Inject(1, list, list.sender);
  EXPECT_LE(View(0, 1)->addresses().size(), RemoteAgent::kMaxAddresses);
  EXPECT_GE(View(0, 1)->addresses().size(), AgentView::kMaxAddresses);
}

AgentId MadeUpId(uint32_t number) {
  return *AgentId::Parse(absl::StrCat("00000000000000000000000", 100000000 + number));
}

TEST_F(VPortProtocolTest, PortThatMakesUpIdsFillsItsOwnShareOnly) {
  StartHosts(2);
  const Gid bad = Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000));
  VPortMessage made_up = MessageFrom(0, VPortMessage::Kind::kAnnounce);
  for (uint32_t i = 0; i < 1000; ++i) {
    made_up.agent = MadeUpId(i);
    made_up.sender = {bad, Qpn(0x1000 + i)};
    Speak(1, made_up, made_up.sender);
    simulation_.clock().Advance(absl::Microseconds(1));
  }
  EXPECT_EQ(engine(1).agents().size(), AgentTable::kMaxAtPort + 1);
  EXPECT_TRUE(Knows(1, 0));
  EXPECT_TRUE(engine(1).agents().contains(MadeUpId(999)))
      << "an agent that starts often without its state is known";
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
    Speak(0, made_up, bad);
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
    Speak(0, list, list.sender);
    simulation_.Advance(absl::Milliseconds(10));
  };
  const absl::Time start = simulation_.clock().Now();
  const uint64_t sent = engine(0).counters().unicast_messages;
  for (uint32_t change = 0; change < 400; ++change) announce(0, change);
  uint64_t senders = 1;  // each is probed once for itself
  const auto probes = [&] { return engine(0).counters().unicast_messages - sent - senders; };
  EXPECT_GE(probes(), SenderVerifier::kMostAtPort);
  EXPECT_LE(probes(), 2 * SenderVerifier::kMostAtPort) << "of one port, and a sweep between";

  const uint32_t kPorts = 100;
  for (uint32_t port = 1; port <= kPorts; ++port) announce(port, 0);
  senders += kPorts;
  const double seconds = absl::ToDoubleSeconds(simulation_.clock().Now() - start);
  EXPECT_LE(static_cast<double>(probes()),
            SenderVerifier::kVerifyBurst + SenderVerifier::kVerifyRate * seconds)
      << "of all";
  simulation_.Advance(absl::Seconds(60));
  EXPECT_GE(probes(), kPorts * (AgentView::kMaxAddresses - 1) * RemoteAgent::kVerifications)
      << "what was delayed is not lost";
}

// A million MACs, for which a sanitizer needs minutes. It sees the same steps in the next test.
TEST_F(VPortProtocolTest, AllAgentsTogetherHaveSoManyMacsAtMost) {
  if (kSanitized) return;
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
      Speak(0, message, message.sender);
    }
  }
  for (const auto& [id, agent] : engine(0).agents()) {
    EXPECT_LE(agent->view().macs.size(), AgentView::kMaxMacs);
    macs += agent->view().macs.size();
  }
  EXPECT_LE(macs, AgentTable::kMaxBytes / AgentView::kBytesOfMac);
  EXPECT_GT(macs, AgentTable::kMaxBytes / AgentView::kBytesOfMac - 4000);
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

// One port has several agents, each with a state that comes in parts and is never complete.
TEST_F(VPortProtocolTest, StatesOfTheAgentsAtAPortAreBounded) {
  StartHosts(1);
  VPortMessage part = MessageFrom(0, VPortMessage::Kind::kReply);
  part.version = 1;
  for (uint32_t agent = 10; agent < 16; ++agent) {
    part.agent = *AgentId::Parse(absl::StrCat("000000000000000000000000000000", agent));
    part.sender = {Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000)), Qpn(agent)};
    part.ranges.clear();
    part.macs.clear();
    Speak(0, part, part.sender);  // its version is new, so its state is requested
    LetAnnounce();
    part.token = engine(0).agents().at(part.agent)->request_token;
    for (int sent = 0; sent < 20; ++sent) {
      part.macs.clear();
      for (int i = 0; i < 4000; ++i) part.macs.push_back({Key(1 + sent * 4000 + i), 1, 1});
      part.ranges = {{StateRange::Of(part.macs.front().key), StateRange::Of(part.macs.back().key)}};
      Inject(0, part, part.sender);
    }
  }
  size_t kept = 0;
  for (const auto& [id, agent] : engine(0).agents()) kept += agent->bytes();
  EXPECT_LE(kept, AgentTable::kMaxBytesAtPort);
  EXPECT_GT(kept, AgentTable::kMaxBytesAtPort / 2);
  EXPECT_GT(engine(0).counters().refused_states, 0u);
}

}  // namespace
}  // namespace eoib
