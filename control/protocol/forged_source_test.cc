// Messages with a forged source: datagrams for that address do not come to the sender.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/protocol/vport_protocol_test_fixture.h"

namespace eoib {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A forged source: the datagrams for that address do not come to the sender.
class ForgedSourceTest : public VPortProtocolTest {
 protected:
  void SetUp() override {
    StartHosts(2);
    Claim(0, Key(1));
    LetAnnounce();
    ASSERT_EQ(events(1).macs[Key(1)].agent, host(0).id);
  }
  void ExpectUntouched() {
    simulation_.Advance(absl::Seconds(5));
    EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(host(0).address));
    EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
    EXPECT_TRUE(Knows(1, 0));
    EXPECT_EQ(engine(1).agents().size(), 1u);
  }
  VPortMessage Claiming(const AgentId& agent, const PeerAddress& sender, FdbKey key) {
    VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAnnounce);
    message.agent = agent;
    message.sender = sender;
    message.base = 0;
    message.version = 1;
    message.addresses = {{sender, true}};
    message.vports = {{1, "port", {}}};
    message.macs = {{key, 1, 1}};
    return message;
  }
  const AgentId other_ = *AgentId::Parse("000000000000000000000000000000ff");
};

// It is used one round trip later, with the state that it announced meanwhile.
TEST_F(ForgedSourceTest, NewAgentIsUsedOnlyAfterItReturnedAToken) {
  const PeerAddress sender{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000)),
                           Qpn(0x1000)};
  const VPortMessage message = Claiming(other_, sender, Key(2));
  Inject(1, message, sender);
  engine(1).Run();
  VPortMessage alive = message;
  alive.kind = VPortMessage::Kind::kAlive;
  for (const uint64_t token : {0ull, 0x1234ull}) {
    alive.token = token;
    Inject(1, alive, sender);
  }
  EXPECT_EQ(engine(1).agents().size(), 1u);
  EXPECT_FALSE(events(1).macs.contains(Key(2)));
  ReturnToken(1, message, sender);
  EXPECT_THAT(events(1).in_use[other_], ElementsAre(sender));
  EXPECT_EQ(events(1).macs[Key(2)].agent, other_);
}

TEST_F(ForgedSourceTest, RestartsNoAgent) {
  VPortMessage restart = Claiming(host(0).id, {host(0).gid, Qpn(0x999)}, Key(2));
  restart.incarnation = ~uint32_t{0};
  Inject(1, restart, restart.sender);
  ExpectUntouched();
  restart.sender = host(0).address;  // host 0 returns the token, in its true incarnation
  Inject(1, restart, restart.sender);
  ExpectUntouched();
}

TEST_F(ForgedSourceTest, ReplacesNoQueuePair) {
  VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAlive);
  message.sender = {host(0).gid, Qpn(0x999)};
  Inject(1, message, message.sender);
  ExpectUntouched();
}

// A forged version is higher than all that the agent will ever have.
TEST_F(ForgedSourceTest, DoesNotKeepAnAgentFromReplacingItsQueuePair) {
  VPortMessage forged = MessageFrom(0, VPortMessage::Kind::kAlive);
  forged.version = ~uint32_t{0};
  Inject(1, forged, forged.sender);
  VPortMessage message = MessageFrom(0, VPortMessage::Kind::kAlive);
  message.sender = {host(0).gid, Qpn(0x999)};
  Speak(1, message, message.sender);
  EXPECT_THAT(events(1).in_use[host(0).id], ElementsAre(message.sender));
  EXPECT_EQ(events(1).macs[Key(1)].agent, host(0).id);
}

// The agent there answers the Probe with its own id.
TEST_F(ForgedSourceTest, TakesNoAddressFromItsAgent) {
  Inject(1, Claiming(other_, host(0).address, Key(2)), host(0).address);
  ExpectUntouched();
}

TEST_F(ForgedSourceTest, SaysWithoutEffectThatAnAgentLeaves) {
  VPortMessage leave = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  leave.leaves = true;
  leave.version = ~uint32_t{0};
  for (int i = 0; i < 10; ++i) {
    Inject(1, leave, leave.sender);
    ASSERT_EQ(events(1).macs[Key(1)].agent, host(0).id);
    simulation_.Advance(absl::Milliseconds(100));
  }
  EXPECT_GE(engine(1).counters().untrue_leaves, 5u);
  ExpectUntouched();
}

// A Probe or its answer may be lost.
TEST_F(ForgedSourceTest, SaysWithoutEffectThatAnAgentLeavesWhileProbesAreLost) {
  VPortMessage leave = MessageFrom(0, VPortMessage::Kind::kWithdraw);
  leave.leaves = true;
  simulation_.network().loss = 1;
  Inject(1, leave, leave.sender);
  simulation_.Advance(absl::Milliseconds(150));
  simulation_.network().loss = 0;
  ExpectUntouched();
}

// An Alive without our token does not save an agent that left: it was on its way.
TEST_F(ForgedSourceTest, AgentThatLeftIsNotKeptByLateMessages) {
  const VPortMessage late = MessageFrom(0, VPortMessage::Kind::kAlive);
  simulation_.Stop(0);
  simulation_.Advance(absl::Milliseconds(90));
  Inject(1, late, late.sender);
  simulation_.Advance(absl::Milliseconds(310));
  EXPECT_TRUE(engine(1).agents().empty());
  EXPECT_FALSE(events(1).macs.contains(Key(1)));
}

// Each sender is probed again while Probes may be lost, and then not before its next message.
TEST_F(ForgedSourceTest, IsProbedAFewTimes) {
  const uint64_t sent = engine(1).counters().unicast_messages;
  const VPortMessage message = Claiming(other_, {host(0).gid, Qpn(0x999)}, Key(2));
  for (int i = 0; i < 10; ++i) Inject(1, message, message.sender);
  engine(1).Run();
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 1);
  simulation_.Advance(absl::Milliseconds(750));
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + 4);
  simulation_.Advance(absl::Minutes(2));
  EXPECT_EQ(engine(1).counters().unicast_messages, sent + AddressProver::kPauses.size());
  Speak(1, message, message.sender);
  EXPECT_TRUE(engine(1).agents().contains(other_));
}

// 50,000 in a second. An agent that starts meanwhile is found, at the latest when it repeats its
// version.
TEST_F(ForgedSourceTest, OthersCostAFewProbesAndAreNotKept) {
  const size_t newcomer = simulation_.AddHost();
  const uint64_t sent = engine(1).counters().unicast_messages;
  for (uint32_t i = 0; i < 50'000; ++i) {
    const PeerAddress sender{Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x9000 + i / 4)),
                             Qpn(i)};
    Inject(1, Claiming(other_, sender, Key(2)), sender);
    if (i == 25'000) simulation_.Start(newcomer);
    if (i % 50 == 0) simulation_.Advance(absl::Milliseconds(1));
  }
  EXPECT_LE(static_cast<double>(engine(1).counters().unicast_messages - sent),
            AddressProver::kBurst + 1.1 * AddressProver::kRate + 10);
  simulation_.Advance(GroupWatch::kLongestPause + absl::Seconds(1));
  EXPECT_TRUE(Knows(1, newcomer));
  EXPECT_EQ(engine(1).agents().size(), 2u);
}

// A message that another agent has our id counts in the answer to our Probe only.
TEST_F(ForgedSourceTest, SaysWithoutEffectThatAnotherAgentHasOurId) {
  const AgentId id = host(1).id;
  for (const VPortMessage::Kind kind : {VPortMessage::Kind::kProbe, VPortMessage::Kind::kAlive}) {
    VPortMessage held = MessageFrom(0, kind);
    held.id_held = 100;
    held.token = 0x1234;
    Inject(1, held, host(0).address);
    simulation_.Advance(absl::Seconds(1));
    EXPECT_EQ(host(1).id, id);
  }
}

}  // namespace
}  // namespace eoib
