// Flooding: which frames flood, where they arrive, and how often.
//
// To check that a frame did not arrive, a test does not wait for a time. It sends a broadcast after
// the frame: datagrams between two agents stay in order, so a receiver that has the broadcast would
// have the frame.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);
const MacAddr kC = MacAddr::FromUint64(0x02'aa'00'00'00'03);
const MacAddr kUnknown = MacAddr::FromUint64(0x02'aa'00'00'00'99);

class FloodingTest : public SwitchTest {
 protected:
  // Adds hosts h1 to h3, and a socket on v1 of each.
  void AddThree(const AgentSpec& spec = {}) {
    const std::vector<Agent*> hosts = AddNumberedAgents(3, spec);
    WaitUntilAllReceive(hosts);
    for (Agent* agent : hosts) {
      sockets_.push_back(std::make_unique<PacketSocket>(agent->host(), "v1"));
    }
  }
  PacketSocket& a() { return *sockets_[0]; }
  PacketSocket& b() { return *sockets_[1]; }
  PacketSocket& c() { return *sockets_[2]; }

  std::vector<std::unique_ptr<PacketSocket>> sockets_;
};

TEST_F(FloodingTest, FirstFrameToUnknownMacFloodsAndReplyDoesNot) {
  AddThree();
  ExpectConservation(agents()[0].get());  // the announcements are over
  const uint64_t flooded_a = agents()[0]->Stat("flooded_unknown");
  a().Send(TestFrame(kB, kA, 1));
  ASSERT_TRUE(b().WaitFor(Marked(1)));
  ASSERT_TRUE(c().WaitFor(Marked(1)));
  ExpectConservation(agents()[1].get());
  const uint64_t flooded_b = agents()[1]->Stat("flooded_unknown"),
                 known_b = agents()[1]->Stat("known_unicast");
  b().Send(TestFrame(kA, kB, 2));
  ASSERT_TRUE(a().WaitFor(Marked(2)));
  a().Send(TestFrame(kB, kA, 3));
  ASSERT_TRUE(b().WaitFor(Marked(3)));
  a().Send(TestFrame(MacAddr::Broadcast(), kA, 4));
  b().Send(TestFrame(MacAddr::Broadcast(), kB, 5));
  ASSERT_TRUE(c().WaitFor(Marked(4)));
  ASSERT_TRUE(c().WaitFor(Marked(5)));

  EXPECT_THAT(c().Markers(), ElementsAre(Pair(1, 1), Pair(4, 1), Pair(5, 1)));
  EXPECT_EQ(agents()[0]->Stat("flooded_unknown"), flooded_a + 1);
  EXPECT_EQ(agents()[1]->Stat("flooded_unknown"), flooded_b);
  EXPECT_EQ(agents()[1]->Stat("known_unicast"), known_b + 2)
      << "the reply, and the frame that came from the fabric for a MAC known here";
}

// Replies to a burst of new sources do not flood either: the agent learns sources before it
// delivers.
TEST_F(FloodingTest, RepliesToBurstOfNewSourcesDoNotFlood) {
  AddThree();
  constexpr int kSources = 100;
  ExpectConservation(agents()[1].get());
  const uint64_t flooded = agents()[1]->Stat("flooded_unknown");
  for (int i = 1; i <= kSources; ++i)
    a().Send(TestFrame(MacAddr::Broadcast(), MacAddr::FromUint64(0x02'bb'00'00'00'00 + i), i));
  int answered = 0;
  size_t seen = 0;
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    for (; seen < b().received().size(); ++seen) {
      const uint32_t marker = MarkerOf(b().received()[seen]);
      if (marker == 0) continue;
      b().Send(TestFrame(MacAddr::FromUint64(0x02'bb'00'00'00'00 + marker), kB, 1000 + marker));
      ++answered;
    }
    return answered == kSources;
  }));
  for (int i = 1; i <= kSources; ++i) EXPECT_TRUE(a().WaitFor(Marked(1000 + i))) << i;
  EXPECT_EQ(agents()[1]->Stat("flooded_unknown"), flooded);
}

TEST_F(FloodingTest, FramesToAgedOutMacFloodAgain) {
  AgentSpec spec;
  spec.veses[0].more = "ageing = 5\n";  // long enough for a slow machine to send three frames
  AddThree(spec);
  b().Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(a().WaitFor(Marked(1)));
  ASSERT_TRUE(c().WaitFor(Marked(1)));
  a().Send(TestFrame(kB, kA, 2));
  a().Send(TestFrame(MacAddr::Broadcast(), kA, 3));
  ASSERT_TRUE(b().WaitFor(Marked(2)));
  ASSERT_TRUE(c().WaitFor(Marked(3)));
  EXPECT_EQ(c().Count(Marked(2)), 0u) << "the MAC is known: no flooding";

  // On the third host, too: while it knows the MAC behind the second, it filters the flooded frame.
  for (Agent* agent : {agents()[0].get(), agents()[2].get()}) {
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !agent->Knows(kB.ToString()); }))
        << agent->host()->name();
  }
  a().Send(TestFrame(kB, kA, 4));
  EXPECT_TRUE(b().WaitFor(Marked(4)));
  EXPECT_TRUE(c().WaitFor(Marked(4))) << "the MAC is unknown again: flooding";
}

TEST_F(FloodingTest, ActiveMacDoesNotAgeOut) {
  AgentSpec spec;
  spec.veses[0].more = "ageing = 5\n";
  AddThree(spec);
  b().Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(a().WaitFor(Marked(1)));
  // For twice the ageing time, with frames all the while.
  uint32_t marker = 2;
  EXPECT_FALSE(EventuallyTrue(absl::Seconds(10), [&] {
    b().Send(TestFrame(MacAddr::Broadcast(), kB, marker++));
    return !agents()[0]->Knows(kB.ToString());
  }));
}

// Two vPorts of one VES on the first host, one on each of the others.
class TwoPortFloodingTest : public SwitchTest {
 protected:
  void SetUp() override {
    SwitchTest::SetUp();
    AgentSpec two_ports;
    two_ports.vports = {{"v1"}, {"v2"}};
    Host* first = AddAgent("h1", two_ports).host();
    Host* second = AddAgent("h2").host();
    Host* third = AddAgent("h3").host();
    WaitUntilAllReceive({{first, "v1"}, {first, "v2"}, {second}, {third}});
    v1_ = std::make_unique<PacketSocket>(first, "v1");
    v2_ = std::make_unique<PacketSocket>(first, "v2");
    h2_ = std::make_unique<PacketSocket>(second, "v1");
    h3_ = std::make_unique<PacketSocket>(third, "v1");
  }

  std::vector<PacketSocket*> All() { return {v1_.get(), v2_.get(), h2_.get(), h3_.get()}; }

  // Sends a frame to `destination` and then a broadcast. Expects both exactly once at all sockets
  // but the sender's.
  void ExpectOnceEverywhereElse(PacketSocket* sender, MacAddr destination, uint32_t marker) {
    for (PacketSocket* socket : All()) socket->Clear();
    sender->Send(TestFrame(destination, kA, marker));
    sender->Send(TestFrame(MacAddr::Broadcast(), kA, marker + 1));
    for (PacketSocket* socket : All()) {
      if (socket == sender) continue;
      ASSERT_TRUE(socket->WaitFor(Marked(marker + 1)));
    }
    // At rest: a second copy would have arrived.
    for (const auto& agent : agents()) ExpectConservation(agent.get());
    for (PacketSocket* socket : All()) {
      if (socket == sender) {
        EXPECT_THAT(socket->Markers(), ElementsAre())
            << "the sender must not receive its own frame";
      } else {
        EXPECT_THAT(socket->Markers(), ElementsAre(Pair(marker, 1), Pair(marker + 1, 1)));
      }
    }
  }

  std::unique_ptr<PacketSocket> v1_, v2_, h2_, h3_;
};

TEST_F(TwoPortFloodingTest, EveryReceiverGetsABroadcastExactlyOnce) {
  uint32_t marker = 100;
  for (PacketSocket* sender : All())
    ExpectOnceEverywhereElse(sender, MacAddr::Broadcast(), marker += 10);
}

TEST_F(TwoPortFloodingTest, EveryReceiverGetsAnUnknownUnicastExactlyOnce) {
  uint32_t marker = 200;
  for (PacketSocket* sender : All()) ExpectOnceEverywhereElse(sender, kUnknown, marker += 10);
}

TEST_F(TwoPortFloodingTest, EveryReceiverGetsAMulticastExactlyOnce) {
  uint32_t marker = 300;
  for (PacketSocket* sender : All())
    ExpectOnceEverywhereElse(sender, Mac("01:00:5e:01:02:03"), marker += 10);
}

TEST_F(TwoPortFloodingTest, UnicastBetweenVPortsOfOneHostStaysLocal) {
  v2_->Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(v1_->WaitFor(Marked(1)));
  ASSERT_TRUE(h2_->WaitFor(Marked(1)));
  agents()[0]->WaitUntilAnnounced();
  ExpectConservation(agents()[0].get());  // the last announcement is out
  const auto frames_sent = [this] {
    const Counters stats = agents()[0]->Stats().at("red");
    return stats.at("transmitted_fabric") - stats.at("messages_sent");
  };
  const uint64_t sent = frames_sent();
  v1_->Send(TestFrame(kB, kA, 2));
  ASSERT_TRUE(v2_->WaitFor(Marked(2)));
  EXPECT_EQ(frames_sent(), sent);
  v1_->Send(TestFrame(MacAddr::Broadcast(), kA, 3));
  ASSERT_TRUE(h2_->WaitFor(Marked(3)));
  ASSERT_TRUE(h3_->WaitFor(Marked(3)));
  EXPECT_EQ(h2_->Count(Marked(2)), 0u);
  EXPECT_EQ(h3_->Count(Marked(2)), 0u);
}

TEST_F(TwoPortFloodingTest, UnicastFromFabricReachesOnlyTheOwningVPort) {
  v2_->Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(h2_->WaitFor(Marked(1)));
  h2_->Send(TestFrame(kB, kC, 2));
  h2_->Send(TestFrame(MacAddr::Broadcast(), kC, 3));
  ASSERT_TRUE(v2_->WaitFor(Marked(2)));
  ASSERT_TRUE(v1_->WaitFor(Marked(3)));
  EXPECT_EQ(v1_->Count(Marked(2)), 0u);
}

TEST_F(TwoPortFloodingTest, FrameToMacBehindItsOwnPortIsDropped) {
  v1_->Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(h2_->WaitFor(Marked(1)));
  const uint64_t dropped = agents()[0]->Drop("same_port");
  v1_->Send(TestFrame(kB, kA, 2));
  v1_->Send(TestFrame(MacAddr::Broadcast(), kA, 3));
  ASSERT_TRUE(h2_->WaitFor(Marked(3)));
  ASSERT_TRUE(v2_->WaitFor(Marked(3)));
  EXPECT_EQ(h2_->Count(Marked(2)) + v2_->Count(Marked(2)) + v1_->Count(Marked(2)), 0u);
  EXPECT_EQ(agents()[0]->Drop("same_port"), dropped + 1);
}

// ---- Partitions ---------------------------------------------------------------------------------

TEST_F(FloodingTest, NoFrameCrossesPKeys) {
  StartFabric({{0x8001}, {0x8002}});
  AgentSpec spec;
  spec.veses = {{"red", 0x8001}, {"blue", 0x8002}};
  spec.vports = {{"r1", "red"}, {"b1", "blue"}};
  Host* first = AddAgent("h1", spec).host();
  Host* second = AddAgent("h2", spec).host();
  for (const char* interface : {"r1", "b1"})
    WaitUntilAllReceive({{first, interface}, {second, interface}});
  PacketSocket red1(first, "r1"), blue1(first, "b1"), red2(second, "r1"), blue2(second, "b1");

  // kB is in the blue VES only; in the red one it is unknown and floods.
  blue2.Send(TestFrame(MacAddr::Broadcast(), kB, 1));
  ASSERT_TRUE(blue1.WaitFor(Marked(1)));
  red1.Send(TestFrame(MacAddr::Broadcast(), kA, 2));
  red1.Send(TestFrame(kB, kA, 3));
  ASSERT_TRUE(red2.WaitFor(Marked(3)));
  // Sent later, in the other VES, from both hosts.
  blue1.Send(TestFrame(MacAddr::Broadcast(), kC, 4));
  blue2.Send(TestFrame(MacAddr::Broadcast(), kC, 5));
  ASSERT_TRUE(blue2.WaitFor(Marked(4)));
  ASSERT_TRUE(blue1.WaitFor(Marked(5)));
  for (const auto& agent : agents()) ExpectConservation(agent.get());

  EXPECT_THAT(red1.Markers(), ElementsAre());
  EXPECT_THAT(red2.Markers(), ElementsAre(Pair(2, 1), Pair(3, 1)));
  EXPECT_THAT(blue1.Markers(), ElementsAre(Pair(1, 1), Pair(5, 1)));
  EXPECT_THAT(blue2.Markers(), ElementsAre(Pair(4, 1)));
  EXPECT_TRUE(agents()[0]->Knows(kB.ToString(), "", 0, "blue"));
  EXPECT_FALSE(agents()[0]->Knows(kB.ToString(), "", 0, "red"));
}

// A host may boot before the subnet manager has added it to the partition.
TEST_F(FloodingTest, AgentOutsideThePartitionWaitsWithoutCarrier) {
  StartFabric({{0x8001, {"h1"}}});
  Agent agent(&lab(), &fabric(), lab().AddHost("h2"), {});
  agent.Launch();
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(agent.Ctl({"show"}).out, "find P_Key 0x8001"); }));
  agent.host()->SetUp("v1");
  EXPECT_THAT(agent.host()->MustIp("-o link show dev v1"),
              ::testing::Not(::testing::HasSubstr("LOWER_UP")));
  EXPECT_EQ(agent.Stop(), 0) << agent.Log();
}

TEST_F(FloodingTest, LimitedMembersAreIsolatedFromEachOtherAndReachFullMembers) {
  StartFabric({{0x8001, {"h1"}, {"h2", "h3"}}});
  AgentSpec two_ports;
  two_ports.vports = {{"v1"}, {"v2"}};
  Host* full = AddAgent("h1").host();
  Host* limited = AddAgent("h2", two_ports).host();
  Host* other = AddAgent("h3").host();
  WaitUntilAllReceive({full}, {{limited, "v1"}, {limited, "v2"}, {other}});
  PacketSocket server(full, "v1"), v1(limited, "v1"), v2(limited, "v2"), client(other, "v1");

  // First each station sends a broadcast, then unicast to the others.
  server.Send(TestFrame(MacAddr::Broadcast(), kA, 1));
  ASSERT_TRUE(v1.WaitFor(Marked(1)));
  ASSERT_TRUE(v2.WaitFor(Marked(1)));
  ASSERT_TRUE(client.WaitFor(Marked(1)));
  v2.Send(TestFrame(MacAddr::Broadcast(), kB, 2));
  client.Send(TestFrame(MacAddr::Broadcast(), kC, 3));
  ASSERT_TRUE(server.WaitFor(Marked(2)));
  ASSERT_TRUE(server.WaitFor(Marked(3)));
  v1.Send(TestFrame(kA, kUnknown, 4));  // limited to full
  v1.Send(TestFrame(kB, kUnknown, 5));  // to the vPort next to it
  v1.Send(TestFrame(kC, kUnknown, 6));  // to another limited member
  v1.Send(TestFrame(MacAddr::Broadcast(), kUnknown, 7));
  ASSERT_TRUE(server.WaitFor(Marked(4)));
  ASSERT_TRUE(server.WaitFor(Marked(7)));
  server.Send(TestFrame(kB, kA, 8));  // full to limited
  server.Send(TestFrame(kC, kA, 9));
  server.Send(TestFrame(MacAddr::Broadcast(), kA, 10));
  ASSERT_TRUE(v2.WaitFor(Marked(8)));
  ASSERT_TRUE(client.WaitFor(Marked(9)));
  ASSERT_TRUE(client.WaitFor(Marked(10)));
  ASSERT_TRUE(v1.WaitFor(Marked(10)));
  ASSERT_TRUE(v2.WaitFor(Marked(10)));
  for (const auto& agent : agents()) ExpectConservation(agent.get());

  EXPECT_THAT(v1.Markers(), ElementsAre(Pair(1, 1), Pair(10, 1)));
  EXPECT_THAT(v2.Markers(), ElementsAre(Pair(1, 1), Pair(8, 1), Pair(10, 1)));
  EXPECT_THAT(client.Markers(), ElementsAre(Pair(1, 1), Pair(9, 1), Pair(10, 1)));
  EXPECT_GT(agents()[1]->Drop("isolated"), 0u);
}

// ---- The VLAN set of a VES ----------------------------------------------------------------------

TEST_F(FloodingTest, FramesOutsideTheVlanSetAreDropped) {
  AgentSpec narrow, wide;
  narrow.veses[0].more = "vlans = [0, 10, \"100-102\"]\n";
  narrow.vports[0].more = wide.vports[0].more = "mode = \"trunk\"\n";
  Agent& first = AddAgent("h1", narrow);
  // Allows all VLANs: the receiver must drop frames of the others.
  Agent& second = AddAgent("h2", wide);
  WaitUntilAllReceive({{first.host()}, {second.host()}});
  PacketSocket one(first.host(), "v1"), two(second.host(), "v1");

  for (PacketSocket* sender : {&one, &two}) {
    PacketSocket& receiver = sender == &one ? two : one;
    const uint64_t dropped = first.Drop("vlan_not_allowed");
    const uint32_t base = sender == &one ? 0 : 1000;
    for (uint32_t vid : {10, 11, 99, 100, 102, 103, 4094}) {
      sender->Send(WithTag(TestFrame(MacAddr::Broadcast(), kA, base + vid), vid));
      sender->Send(WithTag(TestFrame(kUnknown, kA, base + vid + 5000), vid));
    }
    sender->Send(TestFrame(MacAddr::Broadcast(), kA, base + 500));
    ASSERT_TRUE(receiver.WaitFor(Marked(base + 500)));
    std::vector<uint32_t> arrived;
    for (const auto& [marker, count] : receiver.Markers()) arrived.push_back(marker - base);
    EXPECT_THAT(arrived, ElementsAre(10, 100, 102, 500, 5010, 5100, 5102));
    EXPECT_EQ(first.Drop("vlan_not_allowed"), dropped + 8);
    one.Clear();
    two.Clear();
  }
}

}  // namespace
}  // namespace eoib::lab
