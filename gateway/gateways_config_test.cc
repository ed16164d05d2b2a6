#include "gateway/gateways_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "control/config/config_diff.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kVes[] = "[[ves]]\nname = \"blue\"\npkey = 0x8001\nvlans = [0, 10]\n";

TEST(GatewayConfigTest, TheLeastThatWorks) {
  const GatewaysConfig config =
      ParseGatewaysConfig(absl::StrCat(kVes, "[[gateway]]\nname = 'gw0'\nves = 'blue'\n"), "f")
          .value();
  ASSERT_THAT(config.gateways, SizeIs(1));
  const GatewayConfig& gateway = config.gateways[0];
  EXPECT_EQ(gateway.pkey, PKey(0x8001)) << "the VES's";
  EXPECT_EQ(gateway.vlan, Vid(0));
  EXPECT_EQ(gateway.priority, 100);
  EXPECT_FALSE(gateway.peers.has_value()) << "everybody's hellos count";
  EXPECT_TRUE(gateway.grh);
  ASSERT_THAT(config.agent.vports, SizeIs(1)) << "its place in the VES";
  EXPECT_EQ(config.agent.vports[0].name, "gw0");
  EXPECT_EQ(config.agent.vports[0].kind->name, "ipoib");
}

TEST(GatewayConfigTest, ReadsEveryKey) {
  const GatewaysConfig config =
      ParseGatewaysConfig(
          absl::StrCat(
              kVes,
              "[[gateway]]\nname = 'gw0'\nves = 'blue'\nvlan = 10\npkey = '0x2'\nscope = 5\n"
              "priority = 7\npeers = ['fe80::1', 'fe80::2']\ngrh = false\nall_groups = true\n"
              "prefixes = ['10.0.0.0/24', 'fd00::/64']\n"
              "routers = ['10.0.0.1', 'fe80::1']\nicmp_source = ['10.0.0.250', 'fd00::250']\n"
              "stations = 10\nneighbors = 20\nasks_per_second = 50\nquery_groups = false\n"),
          "f")
          .value();
  const GatewayConfig& gateway = config.gateways[0];
  EXPECT_EQ(gateway.vlan, Vid(10));
  EXPECT_EQ(gateway.pkey, PKey(0x8002));
  EXPECT_EQ(gateway.scope, MulticastScope(5));
  EXPECT_EQ(gateway.priority, 7);
  EXPECT_EQ(gateway.peers, (std::vector<Gid>{*Gid::Parse("fe80::1"), *Gid::Parse("fe80::2")}));
  EXPECT_FALSE(gateway.grh);
  EXPECT_TRUE(gateway.all_groups);
  EXPECT_THAT(gateway.translation.prefixes, SizeIs(2));
  EXPECT_EQ(gateway.translation.prefixes[1].length, 64);
  EXPECT_THAT(gateway.translation.routers, SizeIs(2));
  EXPECT_EQ(gateway.translation.icmp_sources.ipv4, Ipv4Addr(0x0a0000fa));
  EXPECT_TRUE(gateway.translation.icmp_sources.ipv6.has_value());
  EXPECT_EQ(gateway.translation.max_stations, 10u);
  EXPECT_EQ(gateway.translation.max_neighbors, 20u);
  EXPECT_EQ(gateway.translation.asks_per_second, 50);
  EXPECT_FALSE(gateway.translation.query_groups);
  EXPECT_EQ(config.agent.vports[0].vlan.access_vlan, Vid(10));
}

// Each row changes one key of a running gateway or uplink.
TEST(GatewayConfigTest, KeysThatNeedNoOtherLinkChangeInPlace) {
  const std::string gateway = "[[gateway]]\nname = 'gw0'\nves = 'blue'\n";
  const std::string uplink = "[[uplink]]\nname = 'up0'\nves = 'blue'\nnetdev = 'eth1'\n";
  const struct {
    std::string table;
    const char* key;
    const char* text;
  } kRows[] = {
      {gateway, "priority = 7", "change gateway gw0, in place\n"},
      {gateway, "peers = ['fe80::1']", "change gateway gw0, in place\n"},
      {gateway, "prefixes = ['10.0.0.0/24']", "change gateway gw0, in place\n"},
      {gateway, "routers = ['10.0.0.1']", "change gateway gw0, in place\n"},
      {gateway, "icmp_source = ['10.0.0.1']", "change gateway gw0, in place\n"},
      {gateway, "stations = 10", "change gateway gw0, in place\n"},
      {gateway, "neighbors = 10", "change gateway gw0, in place\n"},
      {gateway, "asks_per_second = 10", "change gateway gw0, in place\n"},
      {gateway, "query_groups = false", "change gateway gw0, in place\n"},
      {gateway, "vlan = 10", "replace gateway gw0: it leaves its IPoIB link"},
      {gateway, "pkey = 0x8002", "replace gateway gw0: it leaves its IPoIB link"},
      {gateway, "grh = false", "replace gateway gw0: it leaves its IPoIB link"},
      {uplink, "mtu = 1400", "change uplink up0, in place\n"},
      {uplink, "fdb_limit = 10", "change uplink up0, in place\n"},
      {uplink, "ves_macs = 10", "change uplink up0, in place\n"},
      {uplink, "stp = 'drop'", "change uplink up0, in place\n"},
      {uplink, "edge = false", "change uplink up0, in place\n"},
      {uplink, "priority = 7", "change uplink up0, in place\n"},
      {uplink, "peers = ['fe80::1']", "change uplink up0, in place\n"},
      {uplink, "icmp_source = ['10.0.0.1']", "change uplink up0, in place\n"},
      {uplink, "vlans = [10]", "replace uplink up0: it opens its netdev again"},
  };
  for (const auto& row : kRows) {
    const auto before = ParseGatewaysConfig(absl::StrCat(kVes, row.table), "f");
    const auto after = ParseGatewaysConfig(absl::StrCat(kVes, row.table, row.key), "f");
    ASSERT_TRUE(before.ok() && after.ok()) << row.key << ": " << after.status();
    EXPECT_THAT(ConfigDiff::Between(before->agent, after->agent).text, StartsWith(row.text))
        << row.key;
  }
}

TEST(GatewayConfigTest, AGatewayMayBeSaidToBeAlone) {
  const auto config = ParseGatewaysConfig(
      absl::StrCat(kVes, "[[gateway]]\nname = 'gw0'\nves = 'blue'\npeers = []\n"), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->gateways[0].peers.has_value());
  EXPECT_THAT(*config->gateways[0].peers, testing::IsEmpty());
}

// A burst below one would let no solicitation pass.
TEST(GatewayConfigTest, TheLowestRateOfSolicitationsLetsOnePass) {
  const auto config =
      ParseGatewaysConfig(
          absl::StrCat(kVes, "[[gateway]]\nname = 'gw0'\nves = 'blue'\nasks_per_second = 1\n"), "f")
          .value();
  const translation::Options& options = config.gateways[0].translation;
  EXPECT_EQ(options.ask_burst_each, 1);
  EXPECT_EQ(options.asks_per_second_each, 0.4);
}

TEST(GatewayConfigTest, EveryMistakeSaysHowToMendIt) {
  const std::string place = absl::StrCat(kVes, "[[gateway]]\nname = 'gw0'\nves = 'blue'\n");
  const struct {
    std::string toml;
    const char* says;
  } rows[] = {
      {kVes, "there is no gateway and no uplink; the least that works"},
      {absl::StrCat(kVes, "[[gateway]]\nves = 'blue'\n"), "f:5: [[gateway]] has no name"},
      {absl::StrCat(kVes, "[[gateway]]\nname = 'gw0'\nves = 'red'\n"),
       "there is no [[ves]] of that name"},
      {absl::StrCat(kVes, "[[gateway]]\nname = 'a/b'\nves = 'blue'\n"), "1 to 15 letters"},
      {place + "vlan = 11\n", "does not carry VLAN 11"},
      {place + "pkey = 0\n", "pkey is 0"},
      {place + "pkey = 8002\n", "pkey is 8002; did you mean 0x8002?"},
      {place + "pkey = 0x8000\n", "0x8000 names no partition"},
      {place + "scope = 15\n", "1 to 14"},
      {place + "priority = 0\n", "of several gateways the highest works"},
      {place + "peers = 'fe80::1'\n", "write peers = ["},
      {place + "peers = [1]\n", "peers has 1; the GID of a port is written"},
      {place + "peers = ['fe80::1', 'gw2']\n",
       "peers has \"gw2\"; the GID of a port is written \"fe80::2:c903:e:b72\""},
      {place + "peers = ['10.0.0.1']\n", "the GID of a port is written"},
      {place + "peers = ['::']\n", "that is the GID of no port"},
      {place + "peers = ['ff02::1']\n", "that is the GID of a multicast group"},
      {place + "peers = ['fe80::1', 'fe80::1']\n",
       "peers names fe80:0000:0000:0000:0000:0000:0000:0001 twice"},
      {place + "prefixes = '10.0.0.0/24'\n", "write prefixes = ["},
      {place + "prefixes = ['10.0.0.0/33']\n", "a prefix is written"},
      {place + "routers = ['ff02::2']\n", "the address of a host is written"},
      {place + "icmp_source = ['0.0.0.0']\n", "the address of a host is written"},
      {place + "router = ['10.0.0.1']\n", "did you mean \"routers\"?"},
      {place + "[[gateway]]\nname = 'gw1'\nves = 'blue'\n", "two are a loop"},
      {place + "[[gateway]]\nname = 'gw0'\nves = 'blue'\nvlan = 10\n", "the first is on line 5"},
      {place + "[[vport]]\nname = 'v1'\nves = 'blue'\n", "run eoibd for them"},
  };
  for (const auto& row : rows) {
    const auto config = ParseGatewaysConfig(row.toml, "f");
    ASSERT_FALSE(config.ok()) << row.toml;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(row.says));
  }
}

std::string GatewayToml(const char* name, int vlan, int pkey, int scope = 2) {
  return absl::StrCat("[[gateway]]\nname = '", name, "'\nves = 'blue'\nvlan = ", vlan,
                      "\npkey = ", pkey, "\nscope = ", scope, "\n");
}

TEST(GatewayConfigTest, GatewaysThatLeadRoundAreRefused) {
  const std::string ves = "[[ves]]\nname = 'blue'\npkey = 0x8001\n";
  const std::string tree =
      absl::StrCat(ves, GatewayToml("gw0", 10, 0x8002), GatewayToml("gw1", 20, 0x8002),
                   GatewayToml("gw2", 10, 0x8003));
  EXPECT_TRUE(ParseGatewaysConfig(tree, "f").ok())
      << "two VLANs on one link, one VLAN on two: no way leads back";
  EXPECT_TRUE(ParseGatewaysConfig(tree + GatewayToml("gw3", 10, 0x8002, 5), "f").ok())
      << "another scope is another link";
  const auto loop = ParseGatewaysConfig(tree + GatewayToml("gw3", 20, 0x8003), "f");
  ASSERT_FALSE(loop.ok());
  EXPECT_THAT(std::string(loop.status().message()),
              HasSubstr("gateway \"gw3\" between VLAN 20 of VES blue and link 0x8003 of scope 2 "
                        "closes a loop with \"gw1\", \"gw0\", \"gw2\", in which"));
}

// Each default named in the example's comments is the one that a gateway without that key gets.
TEST(GatewayConfigExampleTest, TheShippedExampleParses) {
  const auto config = LoadGatewaysConfig(EOIB_EXAMPLES "/eoib-gateway.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_THAT(config->gateways, SizeIs(2));
  const GatewayConfig& all = config->gateways[0];
  const GatewayConfig& least = config->gateways[1];
  EXPECT_EQ(all.vlan, Vid(10));
  EXPECT_EQ(all.pkey, PKey(0x8002));
  EXPECT_EQ(all.priority, 150);
  EXPECT_THAT(*all.peers, SizeIs(2));
  EXPECT_FALSE(least.peers.has_value());
  EXPECT_THAT(all.translation.prefixes, SizeIs(2));
  EXPECT_THAT(all.translation.routers, SizeIs(2));
  EXPECT_EQ(least.pkey, PKey(0x8001));
  EXPECT_EQ(least.scope, all.scope);
  EXPECT_EQ(least.grh, all.grh);
  EXPECT_EQ(least.all_groups, all.all_groups);
  EXPECT_EQ(least.translation.query_groups, all.translation.query_groups);
  EXPECT_EQ(least.translation.max_stations, all.translation.max_stations);
  EXPECT_EQ(least.translation.max_neighbors, all.translation.max_neighbors);
  EXPECT_EQ(least.translation.asks_per_second, all.translation.asks_per_second);
  ASSERT_THAT(config->uplinks, SizeIs(1));
  EXPECT_EQ(config->uplinks[0].vlans.ToString(), "0:5,100-109:1100");
  const auto appliance = LoadGatewaysConfig(EOIB_EXAMPLES "/eoib-gateway-appliance.toml");
  ASSERT_TRUE(appliance.ok()) << appliance.status();
  EXPECT_THAT(appliance->uplinks, SizeIs(2));
}

}  // namespace
}  // namespace eoib::gateway
