#include "gateway/uplink/uplink_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gateway/gateways_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kTrunkVes[] =
    "[[ves]]\nname = \"blue\"\npkey = 0x8001\nvlans = [0, 10, \"20-29\"]\n";
constexpr char kUplink[] = "[[uplink]]\nname = 'up0'\nves = 'blue'\nnetdev = 'eth1'\n";

TEST(UplinkConfigTest, TheLeastThatWorks) {
  const GatewaysConfig config = ParseGatewaysConfig(absl::StrCat(kTrunkVes, kUplink), "f").value();
  ASSERT_THAT(config.uplinks, SizeIs(1));
  const UplinkConfig& uplink = config.uplinks[0];
  EXPECT_EQ(uplink.vlans.ToString(), "0,10,20-29") << "those of the VES";
  EXPECT_TRUE(uplink.pass_stp && uplink.edge);
  EXPECT_FALSE(uplink.pass_lldp || uplink.pass_slow);
  EXPECT_TRUE(uplink.peers.empty());
  EXPECT_FALSE(uplink.mtu.has_value());
  ASSERT_THAT(config.agent.vports, SizeIs(1));
  EXPECT_EQ(config.agent.vports[0].kind->name, "uplink");
  EXPECT_EQ(config.agent.vports[0].vlan.trunk_vlans, uplink.vlans.vlans());
}

TEST(UplinkConfigTest, ReadsEveryKey) {
  const GatewaysConfig config =
      ParseGatewaysConfig(
          absl::StrCat(
              kTrunkVes, kUplink,
              "vlans = [10, '20-25:120', '29:0']\nmtu = 9000\nfdb_limit = 100\nves_macs = 50\n"
              "stp = 'drop'\nlldp = 'pass'\nslow = 'drop'\nedge = false\npriority = 7\n"
              "peers = ['fe80::1', 'fe80::2']\nicmp_source = ['10.0.0.250', 'fd00::250']\n"),
          "f")
          .value();
  const UplinkConfig& uplink = config.uplinks[0];
  EXPECT_EQ(uplink.netdev, "eth1");
  EXPECT_EQ(uplink.vlans.ToString(), "10,20-25:120,29:0");
  EXPECT_EQ(uplink.mtu, 9000);
  EXPECT_EQ(uplink.ves_macs, 50u);
  EXPECT_FALSE(uplink.pass_stp || uplink.pass_slow || uplink.edge);
  EXPECT_TRUE(uplink.pass_lldp);
  EXPECT_EQ(uplink.priority, 7);
  EXPECT_THAT(uplink.peers, SizeIs(2));
  EXPECT_EQ(uplink.icmp_sources.ipv4, Ipv4Addr(0x0a0000fa));
  EXPECT_EQ(config.agent.vports[0].fdb_limit, 100u);
  EXPECT_EQ(config.agent.vports[0].vlan.native_vlan, Vid(29));
}

TEST(UplinkConfigTest, GatewaysAndUplinksShareOneFile) {
  const GatewaysConfig config =
      ParseGatewaysConfig(
          absl::StrCat(kTrunkVes, "[[gateway]]\nname = 'gw0'\nves = 'blue'\n", kUplink), "f")
          .value();
  ASSERT_THAT(config.agent.vports, SizeIs(2));
  EXPECT_EQ(config.agent.vports[0].kind->name, "ipoib");
  EXPECT_EQ(config.agent.vports[1].kind->name, "uplink");
}

TEST(UplinkConfigTest, ReportsMistakes) {
  struct Row {
    const char* more;
    const char* message;
  };
  for (const Row& row : {
           Row{"vlans = [11]\n", "VES blue does not carry VLAN 11; its vlans are 0,10,20-29"},
           Row{"vlans = [10, '20:10']\n", "each has one partner"},
           Row{"vlans = ['20-10']\n", "a VLAN is an integer from 0 to 4094 or a string"},
           Row{"vlans = ['20-29:4090']\n", "a VLAN is an integer from 0 to 4094 or a string"},
           Row{"vlans = []\n", "write vlans = [10,"},
           Row{"vlans = ['0:100', '10:0']\n", "give up one of the two"},
           Row{"slow = 'pass'\n", "slow = \"pass\" needs bit 2 in group_fwd_mask of VES blue"},
           Row{"peers = ['me']\n", "the GID of a port is written"},
           Row{"vlan = 10\n", "vlan"},
           Row{"[[uplink]]\nname = 'up1'\nves = 'blue'\nnetdev = 'eth2'\nvlans = [10]\n",
               "two ways between two networks are a loop"},
           Row{"vlans = [0]\n[[uplink]]\nname = 'up1'\nves = 'blue'\nnetdev = 'eth1'\nvlans = "
               "[10]\n",
               "netdev \"eth1\" is also that of uplink \"up0\""},
       }) {
    const auto config = ParseGatewaysConfig(absl::StrCat(kTrunkVes, kUplink, row.more), "f");
    ASSERT_FALSE(config.ok()) << row.more;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(row.message)) << row.more;
  }
}

}  // namespace
}  // namespace eoib::gateway
