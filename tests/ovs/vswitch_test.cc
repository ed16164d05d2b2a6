// Bridges of eoib-vswitchd with ports of type eoib, with each other and with eoibd.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/frames.h"
#include "tests/lab/sockets.h"
#include "tests/ovs/vswitch_test_fixture.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(VSwitchTest, PingBetweenTwoBridges) {
  VSwitch* const one = AddNumbered(1);
  VSwitch* const other = AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2))) << one->Log() << other->Log();
  ExpectPing(one->host(), Address(2), 20);
  ExpectPing(other->host(), Address(1), 3, "0.01", 1400);
  EXPECT_THAT(one->Appctl({"eoib/show"}), HasSubstr("vPort eoib0: embedded"));
  EXPECT_THAT(one->Appctl({"eoib/fdb-show"}), HasSubstr(other->host()->Mac("br0")));
  EXPECT_THAT(one->Appctl({"eoib/peers", "red"}), HasSubstr("1 vPorts, 1 MACs"));
  EXPECT_THAT(one->Appctl({"fdb/show", "br0"}), HasSubstr(other->host()->Mac("br0")));
  EXPECT_THAT(one->TryAppctl({"eoib/peers", "green"}).err,
              HasSubstr("no VES \"green\"; there is: red"));
}

TEST_F(VSwitchTest, PingBetweenABridgeAndAnAgent) {
  VSwitch* const bridge = AddNumbered(1);
  Agent& agent = AddAgent("h2");
  agent.host()->AddAddress("v1", "10.0.0.2/24");
  ASSERT_TRUE(Reaches(bridge->host(), Address(2))) << bridge->Log() << agent.Log();
  ExpectPing(bridge->host(), Address(2), 20);
  ExpectPing(agent.host(), Address(1), 20);
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return agent.KnowsAnnounced(bridge->host()->Mac("br0")); }));
}

TEST_F(VSwitchTest, AnInterfaceTellsItsStateAndStatistics) {
  VSwitch* const one = AddNumbered(1);
  AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  EXPECT_EQ(one->Of("eoib0", "mtu"), "4070");
  EXPECT_EQ(one->Of("eoib0", "status:ves"), "red");
  EXPECT_EQ(one->Of("eoib0", "status:max_mtu"), "4070");
  one->Vsctl("set Interface eoib0 mtu_request=1400");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return one->Of("eoib0", "mtu") == "1400"; }));
  const std::string stats = one->Ofctl({"dump-ports", "br0", "eoib0"});
  EXPECT_THAT(stats, Not(HasSubstr("rx pkts=0,"))) << stats;
}

TEST_F(VSwitchTest, AccessAndTrunkPorts) {
  VSwitch* const one = AddNumbered(1, "vlan_mode=trunk");
  // The bridge's own interface is an access port, so its frames are tagged at the trunk.
  one->Vsctl("set Port br0 tag=10");
  Agent& tagged = AddAgent("h2", {.vports = {{.more = "mode = \"access\"\naccess_vlan = 10\n"}}});
  Agent& other = AddAgent("h3", {.vports = {{.more = "mode = \"access\"\naccess_vlan = 20\n"}}});
  tagged.host()->AddAddress("v1", "10.0.0.2/24");
  other.host()->AddAddress("v1", "10.0.0.3/24");
  EXPECT_TRUE(Reaches(one->host(), Address(2)));
  EXPECT_FALSE(Reaches(one->host(), Address(3), absl::Seconds(1)));
}

TEST_F(VSwitchTest, OpenFlowRulesApply) {
  VSwitch* const one = AddNumbered(1);
  AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  one->Ofctl({"add-flow", "br0", "priority=100,icmp,in_port=eoib0,actions=drop"});
  one->Appctl({"revalidator/wait"});  // until no cached flow is older than the rule
  EXPECT_FALSE(Reaches(one->host(), Address(2), absl::Seconds(1)));
  one->Ofctl({"del-flows", "br0", "icmp"});
  EXPECT_TRUE(Reaches(one->host(), Address(2)));
}

TEST_F(VSwitchTest, APortIsDeletedAndAddedAgainUnderTraffic) {
  VSwitch* const one = AddNumbered(1);
  VSwitch* const other = AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  const auto traffic = other->host()->Start({"ping", "-q", "-f", Address(1)});
  for (int i = 0; i < 3; ++i) {
    one->Vsctl("del-port eoib0");
    one->AddPort("br0", "eoib0");
    EXPECT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
  }
  EXPECT_TRUE(traffic->Alive());
}

TEST_F(VSwitchTest, Ipv6BetweenABridgeAndAnAgent) {
  VSwitch* const bridge = AddNumbered(1);
  bridge->host()->AddAddress("br0", Address6(1) + "/64");
  Agent& agent = AddAgent("h2", {}, {.ipv6 = true});
  agent.host()->AddAddress("v1", Address6(2) + "/64");
  EXPECT_TRUE(Reaches(bridge->host(), Address6(2)));
  ExpectPing(agent.host(), Address6(1));
}

// Also checksums that the sender's TAP left to the switch, and super-frames that it must cut.
TEST_F(VSwitchTest, TcpBetweenABridgeAndAnAgent) {
  VSwitch* const bridge = AddNumbered(1);
  Agent& agent = AddAgent("h2");
  agent.host()->AddAddress("v1", "10.0.0.2/24");
  ASSERT_TRUE(Reaches(bridge->host(), Address(2)));
  UniqueFd listener = TcpListener(bridge->host(), Address(1), 5000);
  UniqueFd client = TcpConnect(agent.host(), Address(1), 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 8 << 20), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 8 << 20), "");
}

// The counter of the bridge's VES, in `eoib/stats`.
uint64_t Stat(VSwitch* vswitch, const std::string& name) {
  const std::vector<std::string> words = Words(vswitch->Appctl({"eoib/stats"}));
  const auto at = std::find(words.begin(), words.end(), name);
  uint64_t value = 0;
  EXPECT_TRUE(at != words.end() && at + 1 != words.end() && absl::SimpleAtoi(*(at + 1), &value))
      << name;
  return value;
}

// Whether the bridge has heard the announcement of the MAC. Segments go to peers that have
// announced that they take them.
bool KnowsAnnounced(VSwitch* vswitch, const std::string& mac) {
  const std::string rows = vswitch->Appctl({"eoib/fdb-show"});
  const size_t at = rows.find(mac);
  return at != rows.npos &&
         absl::StrContains(rows.substr(at, rows.find('\n', at) - at), "announced");
}

// Super-frames pass in segments between a bridge and an agent, and are cut at neither.
TEST_F(VSwitchTest, TcpSuperFramesPassWhole) {
  VSwitch* const bridge = AddNumbered(1, "", "userspace-tso-enable=true");
  Agent& agent = AddAgent("h2");
  agent.host()->AddAddress("v1", "10.0.0.2/24");
  ASSERT_TRUE(Reaches(bridge->host(), Address(2))) << bridge->Log();
  ASSERT_TRUE(
      EventuallyTrue(kPatience, [&] { return KnowsAnnounced(bridge, agent.host()->Mac("v1")); }));
  ASSERT_TRUE(
      EventuallyTrue(kPatience, [&] { return agent.KnowsAnnounced(bridge->host()->Mac("br0")); }));
  UniqueFd listener = TcpListener(bridge->host(), Address(1), 5000);
  UniqueFd client = TcpConnect(agent.host(), Address(1), 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 8 << 20), "");
  EXPECT_GT(Stat(bridge, "segments_received"), 0u);
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 8 << 20), "");
  EXPECT_GT(agent.Stat("segments_received"), 0u);
  EXPECT_EQ(Stat(bridge, "segmented"), 0u);
}

TEST_F(VSwitchTest, AThousandStationsBehindABridge) {
  constexpr uint32_t kStations = 1000;
  VSwitch* const bridge = AddNumbered(1);
  Agent& agent = AddAgent("h2");
  agent.host()->AddAddress("v1", "10.0.0.2/24");
  ASSERT_TRUE(Reaches(bridge->host(), Address(2)));
  PacketSocket sender(bridge->host(), "br0");
  const auto station = [](uint32_t i) { return MacAddr::FromUint64(0x02'bb'00'00'00'00 + i); };
  for (uint32_t i = 1; i <= kStations; ++i)
    sender.Send(TestFrame(MacAddr::Broadcast(), station(i), i));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return agent.Fdb().size() >= kStations; }))
      << agent.Fdb().size();
  // A known unicast frame to each leaves the agent for the bridge.
  PacketSocket receiver(bridge->host(), "br0"), other(agent.host(), "v1");
  for (uint32_t i = 1; i <= kStations; i += 100)
    other.Send(TestFrame(station(i), Mac("02:00:00:00:00:99"), i));
  EXPECT_TRUE(receiver.WaitFor(OfEtherType(kTestEtherType), kStations / 100));
}

TEST_F(VSwitchTest, AMirrorGetsTheFramesOfThePort) {
  VSwitch* const one = AddNumbered(1);
  AddNumbered(2);
  one->host()->MustIp("link add tapped type veth peer name watch");
  for (const char* interface : {"tapped", "watch"}) one->host()->SetUp(interface);
  one->Vsctl("add-port br0 tapped");
  one->Vsctl(
      "-- --id=@p get port eoib0 -- --id=@t get port tapped -- --id=@m create mirror name=m "
      "select-src-port=@p "
      "select-dst-port=@p output-port=@t -- set bridge br0 mirrors=@m");
  PacketSocket watcher(one->host(), "watch");
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  EXPECT_TRUE(watcher.WaitFor(OfEtherType(0x0800), 2));
}

TEST_F(VSwitchTest, AnOptionChangesWhileThePortIsUsed) {
  StartFabric({{.pkey = 0x8001}, {.pkey = 0x8002}});
  VSwitch* const one = AddNumbered(1);
  VSwitch* const other = AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  one->Vsctl("set Interface eoib0 options:pkey=0x8002 options:ves=blue");
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(one->Appctl({"eoib/show"}), "VES blue"); }));
  EXPECT_FALSE(Reaches(one->host(), Address(2), absl::Seconds(1)));
  other->Vsctl("set Interface eoib0 options:pkey=0x8002 options:ves=blue");
  EXPECT_TRUE(Reaches(one->host(), Address(2)));
}

TEST_F(VSwitchTest, APortIsPolledByPmdThreads) {
  VSwitch* const one = Add("ovs1", {.ipv6 = true});
  one->Vsctl("set Open_vSwitch . other_config:pmd-maxsleep=250");
  one->AddBridge("br0", 1);
  one->Vsctl(absl::StrCat(one->PortWords("br0", "eoib0"), " type=eoib-pmd"));
  Agent& agent = AddAgent("h2");
  agent.host()->AddAddress("v1", "10.0.0.2/24");
  EXPECT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
  EXPECT_THAT(one->Appctl({"dpif-netdev/pmd-rxq-show"}), HasSubstr("port: eoib0"));
}

// The number of addresses of the only other agent. Data-only peers, such as former queue pairs,
// have lines of another form.
size_t AddressesOfPeer(Agent& agent) {
  const std::string peers = agent.Ctl({"peers"}).out;
  size_t count = 0;
  for (size_t at = 0; (at = peers.find("\n    GID ", at)) != peers.npos; ++at) ++count;
  return count;
}

TEST_F(VSwitchTest, APortHasSeveralQueues) {
  VSwitch* const one = Add("ovs1", {.ipv6 = true});
  one->Vsctl("set Open_vSwitch . other_config:pmd-maxsleep=250");
  one->AddBridge("br0", 1);
  one->Vsctl(absl::StrCat(one->PortWords("br0", "eoib0"), " type=eoib-pmd options:n_rxq=2"));
  Agent& agent = AddAgent("h2");
  agent.host()->AddAddress("v1", "10.0.0.2/24");
  ASSERT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
  EXPECT_THAT(one->Appctl({"dpif-netdev/pmd-rxq-show"}), HasSubstr("queue-id:  1"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return AddressesOfPeer(agent) == 2; }))
      << agent.Ctl({"peers"}).out;
  // Several flows, so that both queues get some.
  UniqueFd listener = TcpListener(one->host(), Address(1), 5000);
  for (int connection = 0; connection < 8; ++connection) {
    UniqueFd client = TcpConnect(agent.host(), Address(1), 5000);
    ASSERT_TRUE(client.valid());
    UniqueFd server = TcpAccept(listener.get());
    ASSERT_TRUE(server.valid());
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
    EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");
  }
  one->Vsctl("set Interface eoib0 options:n_rxq=3");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return AddressesOfPeer(agent) == 3; }))
      << agent.Ctl({"peers"}).out;
  EXPECT_TRUE(Reaches(one->host(), Address(2))) << one->Log();
}

TEST_F(VSwitchTest, AVSwitchRestarts) {
  VSwitch* const one = AddNumbered(1);
  VSwitch* const other = AddNumbered(2);
  ASSERT_TRUE(Reaches(one->host(), Address(2)));
  one->Restart();
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return one->host()->HasInterface("br0"); }));
  one->host()->SetUp("br0");
  if (one->host()->MustIp("addr show dev br0").find("10.0.0.1/") == std::string::npos) {
    one->host()->AddAddress("br0", "10.0.0.1/24");
  }
  EXPECT_TRUE(Reaches(other->host(), Address(1))) << one->Log();
}

TEST_F(VSwitchTest, BadOptionsAreErrorsOfTheInterface) {
  VSwitch* const one = Add("ovs1");
  one->AddBridge("br0", 0);
  const struct {
    std::string options, error;
  } kRows[] = {
      {"", "bad: options:hca is missing: verbs:DEVICE/PORT (see ibv_devices) or soft:PORTNAME"},
      {"options:hca=soft:p", "bad: options:ves is missing: the name of a virtual Ethernet switch"},
      {"options:hca=soft:p options:ves=red options:pkey=0x18001",
       "bad: options:pkey is \"0x18001\", and must be the P_Key of the VES, such as 0x8001"},
      {"options:hca=ether:eth0 options:ves=red options:pkey=0x8001",
       "bad: open HCA \"ether:eth0\": no such kind; this program has soft:, verbs:"},
      {"options:hca=soft:p options:ves=red options:pkey=0x8001 options:n_rxq=9",
       "bad: options:n_rxq is \"9\", and must be 1 to 8"},
      {"options:hca=soft:p options:ves=red options:pkey=0x8001 options:vlan=7",
       "bad: there is no option \"vlan\"; there are hca, ves, pkey, fabric and n_rxq"},
  };
  for (const auto& row : kRows) {
    // ovs-vsctl prints the error, too.
    const RunResult added = one->TryVsctl(
        absl::StrCat("add-port br0 bad -- set Interface bad type=eoib ", row.options));
    EXPECT_THAT(added.err, HasSubstr(row.error)) << row.options;
    EXPECT_EQ(one->Of("bad", "error"), row.error);
    one->TryVsctl("del-port bad");
  }
  // The two ports agree about the VES.
  one->AddPort("br0", "good");
  one->TryVsctl(absl::StrCat(one->PortWords("br0", "bad"), " options:pkey=0x8002"));
  EXPECT_THAT(
      one->Of("bad", "error"),
      HasSubstr("VES red has P_Key 0x8001 at another vPort of this program; give both the same"));
}

}  // namespace
}  // namespace eoib::lab
