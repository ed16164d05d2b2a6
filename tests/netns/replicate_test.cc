// VESes that flood by unicast copies (flood = "replicate"), for fabrics without multicast.
//
// As in flooding_test.cc, a broadcast follows each frame that must not arrive.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/frames.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);
const MacAddr kB = MacAddr::FromUint64(0x02'aa'00'00'00'02);

AgentSpec Replicating(const std::string& vport = "") {
  AgentSpec spec;
  spec.veses[0].more = "flood = \"replicate\"\n";
  spec.vports[0].more = vport;
  return spec;
}

class ReplicateTest : public SwitchTest {
 protected:
  // Waits until `agent` floods to `others` agents, and knows their VLANs.
  void ExpectFloodsTo(Agent* agent, int others) {
    const std::string text =
        absl::StrCat("flood by unicast copies: joined, to ", others, " agents");
    const auto known = [agent] {
      int known = 0;
      for (absl::string_view line : absl::StrSplit(agent->Ctl({"peers"}).out, '\n'))
        known += absl::StrContains(line, " 1 vPorts");
      return known;
    };
    EXPECT_TRUE(EventuallyTrue(
        kPatience,
        [&] { return absl::StrContains(agent->Ctl({"show"}).out, text) && known() == others; }))
        << agent->Ctl({"show"}).out << agent->Ctl({"peers"}).out;
  }
};

TEST_F(ReplicateTest, HostsPingEachOtherWithoutAGroup) {
  const std::vector<Agent*> hosts = AddNumberedAgents(3, Replicating());
  WaitUntilAllReceive(hosts);
  for (int from : {1, 2, 3}) ExpectPing(host(from), Address(from % 3 + 1));
  for (Agent* agent : hosts) {
    ExpectFloodsTo(agent, 2);
    EXPECT_THAT(agent->MustCtl({"show"}), Not(HasSubstr("MLID")));
  }
}

TEST_F(ReplicateTest, ABroadcastArrivesExactlyOnceAndAReplyIsNotFlooded) {
  const std::vector<Agent*> hosts = AddNumberedAgents(3, Replicating());
  WaitUntilAllReceive(hosts);
  PacketSocket a(host(1), "v1"), b(host(2), "v1"), c(host(3), "v1");
  a.Send(TestFrame(MacAddr::Broadcast(), kA, 1));
  a.Send(TestFrame(kB, kA, 2));  // unknown
  ASSERT_TRUE(b.WaitFor(Marked(2)));
  b.Send(TestFrame(kA, kB, 3));
  ASSERT_TRUE(a.WaitFor(Marked(3)));
  a.Send(TestFrame(MacAddr::Broadcast(), kA, 4));
  b.Send(TestFrame(MacAddr::Broadcast(), kB, 5));
  for (PacketSocket* each : {&b, &c}) ASSERT_TRUE(each->WaitFor(Marked(4)));
  for (PacketSocket* each : {&a, &c}) ASSERT_TRUE(each->WaitFor(Marked(5)));
  EXPECT_THAT(a.Markers(), ElementsAre(Pair(3, 1), Pair(5, 1)));
  EXPECT_THAT(b.Markers(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(4, 1)));
  EXPECT_THAT(c.Markers(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(4, 1), Pair(5, 1)));
  for (Agent* agent : hosts) EXPECT_EQ(agent->Drop("fabric_to_fabric"), 0u);
}

TEST_F(ReplicateTest, CopiesGoToTheHostsWithTheVlan) {
  Agent& trunk = AddAgent("h1", Replicating("mode = \"trunk\"\ntrunk_vlans = [10, 20, 30]\n"));
  Agent& ten = AddAgent("h2", Replicating("access_vlan = 10\n"));
  Agent& twenty = AddAgent("h3", Replicating("access_vlan = 20\n"));
  ExpectFloodsTo(&trunk, 2);
  for (Agent* each : {&trunk, &ten, &twenty}) each->WaitUntilAnnounced();
  const uint64_t dropped = trunk.Drop("no_egress"), by_ten = ten.Drop("no_egress"),
                 by_twenty = twenty.Drop("no_egress");
  PacketSocket a(trunk.host(), "v1"), b(ten.host(), "v1"), c(twenty.host(), "v1");
  constexpr uint32_t kFrames = 10;
  for (uint32_t marker = 1; marker <= kFrames; ++marker) {
    for (uint16_t vid : {10, 20, 30})
      a.Send(WithTag(TestFrame(MacAddr::Broadcast(), kA, marker), vid));
  }
  for (PacketSocket* each : {&b, &c}) {
    ASSERT_TRUE(each->WaitFor(Marked(kFrames)));
    EXPECT_EQ(each->Markers().size(), kFrames);
    for (const auto& [marker, times] : each->Markers()) EXPECT_EQ(times, 1u) << marker;
  }
  EXPECT_EQ(ten.Drop("no_egress"), by_ten) << "a copy in a VLAN that the host does not have";
  EXPECT_EQ(twenty.Drop("no_egress"), by_twenty);
  EXPECT_EQ(trunk.Drop("no_egress"), dropped + kFrames) << "no host has VLAN 30";
}

TEST_F(ReplicateTest, AHostThatStartsLaterIsFound) {
  AddNumberedAgents(2, Replicating());
  WaitUntilAllReceive(std::vector<Agent*>{&agent(1), &agent(2)});
  Agent& third = AddAgent("h3", Replicating());
  third.host()->AddAddress("v1", Address(3) + "/24");
  WaitUntilAllReceive({&agent(1), &agent(2), &third});
  for (int number : {1, 2, 3}) ExpectFloodsTo(&agent(number), 2);
  ExpectPing(host(1), Address(3));
  ExpectPing(host(3), Address(2));
}

TEST_F(ReplicateTest, AKilledHostDisturbsNoOtherAndReturns) {
  AddNumberedAgents(3, Replicating());
  WaitUntilAllReceive({&agent(1), &agent(2), &agent(3)});
  ExpectPing(host(1), Address(2));
  SteadyPing ping(host(1), Address(2));
  agent(3).Kill(SIGKILL);
  agent(3).Wait();
  for (int i = 0; i < 3; ++i) {
    host(1)->MustIp("neighbour flush dev v1");  // the next request is a broadcast
    EXPECT_TRUE(Reaches(host(1), Address(2)));
  }
  agent(3).Start();
  EXPECT_TRUE(Reaches(host(1), Address(3)));
  WaitUntilAllReceive({&agent(1), &agent(2), &agent(3)});
  for (int number : {1, 2, 3}) ExpectFloodsTo(&agent(number), 2);
  ping.ExpectNoLoss();
}

TEST_F(ReplicateTest, AHostThatStopsGetsNoMoreCopies) {
  AddNumberedAgents(3, Replicating());
  WaitUntilAllReceive({&agent(1), &agent(2), &agent(3)});
  EXPECT_EQ(agent(3).Stop(), 0);
  for (int number : {1, 2}) ExpectFloodsTo(&agent(number), 1);
  agent(3).Start();
  for (int number : {1, 2, 3}) ExpectFloodsTo(&agent(number), 2);
}

// On the software fabric only: fabricd shows groups and services, and may be killed.
class SoftReplicateTest : public ReplicateTest {};

TEST_F(SoftReplicateTest, TheSubnetHasServicesAndNoGroup) {
  AddNumberedAgents(2, Replicating());
  WaitUntilAllReceive(std::vector<Agent*>{&agent(1), &agent(2)});
  EXPECT_EQ(soft_fabric().Ctl({"groups"}).out, "");
  const std::string services = soft_fabric().Ctl({"services"}).out;
  EXPECT_THAT(services, HasSubstr("h1: 0x02656f6962008001 \"eoib\" pkey 0x8001 lease "));
  EXPECT_THAT(services, HasSubstr("h2: 0x02656f6962008001 \"eoib\" pkey 0x8001 lease "));
  EXPECT_EQ(agent(2).Stop(), 0);
  EXPECT_THAT(soft_fabric().Ctl({"services"}).out, Not(HasSubstr("h2: ")));
  agent(2).Start();
}

TEST_F(SoftReplicateTest, KnownHostsNeedNoSubnet) {
  AddNumberedAgents(2, Replicating());
  WaitUntilAllReceive(std::vector<Agent*>{&agent(1), &agent(2)});
  soft_fabric().Kill(SIGKILL);
  host(1)->MustIp("neighbour flush dev v1");
  EXPECT_TRUE(Reaches(host(1), Address(2)));
  soft_fabric().Start();
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    const std::string services = soft_fabric().Ctl({"services"}).out;
    return absl::StrContains(services, "h1: ") && absl::StrContains(services, "h2: ");
  })) << "they have registered again";
  Agent& third = AddAgent("h3", Replicating());
  third.host()->AddAddress("v1", Address(3) + "/24");
  EXPECT_TRUE(Reaches(third.host(), Address(1)));
}

}  // namespace
}  // namespace eoib::lab
