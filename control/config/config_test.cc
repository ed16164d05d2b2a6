#include "control/config/config.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Lines 1 to 4.
constexpr char kBlue[] = "[[ves]]\nname = 'blue'\npkey = 0x8001\nvlans = [0, 10, '100-199']\n";

std::string ErrorOf(const absl::StatusOr<AgentConfig>& config) {
  return config.ok() ? "OK" : std::string(config.status().message());
}

// A VES named blue, then a vPort. Its table begins on line 5, its name and VES are on 6 and 7;
// `lines` begin on 8.
std::string WithVPort(const std::string& lines) {
  return absl::StrCat(kBlue, "[[vport]]\nname = 'p1'\nves = 'blue'\n", lines);
}
// A VES. Its table begins on line 1, its name and P_Key are on 2 and 3; `lines` begin on 4.
std::string WithVes(const std::string& lines) {
  return absl::StrCat("[[ves]]\nname = 'blue'\npkey = 0x8001\n", lines);
}

// "'fe80::1', 'fe80::2', "
std::string ManyGids(int count) {
  std::string gids;
  for (int i = 1; i <= count; ++i) absl::StrAppend(&gids, "'fe80::", absl::Hex(i), "', ");
  return gids;
}

TEST(ConfigTest, ReadsTheListOfAgents) {
  const auto config = ParseConfig(WithVes(absl::StrCat("agents = [", ManyGids(4096), "]\n")), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->veses[0].agents->size(), 4096u);
  EXPECT_EQ(config->veses[0].agents->back(), *Gid::Parse("fe80::1000"));
  EXPECT_EQ(ParseConfig(WithVes(""), "f")->veses[0].agents, absl::nullopt) << "every agent";
  EXPECT_EQ(ParseConfig(WithVes("agents = []\n"), "f")->veses[0].agents, std::vector<Gid>())
      << "no other agent";
}

TEST(ConfigTest, ReadsEveryKeyOfAVes) {
  const auto config = ParseConfig(
      "[[ves]]\nname = 'blue'\npkey = 0x8001\nvlans = [0, 10, '100-199']\nqkey = "
      "0x80001234\nageing = 0\nfdb_limit = 7\n"
      "vport_fdb_limit = 5\nmove_damping = 'freeze'\ndamping_moves = 3\ndamping_window = "
      "60\ndamping_freeze = 30\n",
      "f");
  ASSERT_EQ("OK", ErrorOf(config));
  ASSERT_EQ(1u, config->veses.size());
  const VesConfig& ves = config->veses[0];
  EXPECT_EQ("blue", ves.name);
  EXPECT_EQ(PKey(0x8001), ves.pkey);
  EXPECT_EQ("0,10,100-199", ves.vlans.ToString());
  EXPECT_EQ(QKey(0x80001234), ves.qkey);
  EXPECT_EQ(absl::ZeroDuration(), ves.ageing);
  EXPECT_EQ(7u, ves.fdb_limit);
  EXPECT_EQ(5u, ves.vport_fdb_limit);
  EXPECT_EQ(3, ves.damping.moves);
  EXPECT_EQ(absl::Seconds(60), ves.damping.window);
  EXPECT_EQ(absl::Seconds(30), ves.damping.freeze);
  EXPECT_EQ(1, ves.line);
  EXPECT_THAT(config->vports, IsEmpty());
}

TEST(ConfigTest, DefaultsOfAVes) {
  const auto config = ParseConfig("\n[[ves]]\nname = 'blue'\npkey = '0x1'\n", "f");
  ASSERT_EQ("OK", ErrorOf(config));
  const VesConfig& ves = config->veses[0];
  EXPECT_EQ(PKey(1), ves.pkey);
  EXPECT_FALSE(ves.pkey.IsFullMember());
  EXPECT_EQ(VlanSet::All(), ves.vlans);
  EXPECT_EQ(absl::nullopt, ves.qkey);
  EXPECT_EQ(absl::Seconds(300), ves.ageing);
  EXPECT_EQ(65536u, ves.fdb_limit);
  EXPECT_EQ(absl::nullopt, ves.vport_fdb_limit);
  EXPECT_EQ(MoveDamper::Action::kFreeze, ves.damping.action);
  EXPECT_EQ(5, ves.damping.moves);
  EXPECT_EQ(absl::Seconds(180), ves.damping.window);
  EXPECT_EQ(2, ves.line);
}

TEST(ConfigTest, ReadsLimitsAndSticky) {
  const auto config = ParseConfig(WithVPort("fdb_limit = 3\nsticky = true\n"), "f");
  ASSERT_EQ("OK", ErrorOf(config));
  EXPECT_EQ(3u, config->vports[0].fdb_limit);
  EXPECT_TRUE(config->vports[0].sticky);
  // A sticky vPort always has a limit.
  EXPECT_EQ(VPortConfig::kStickyLimit,
            ParseConfig(WithVPort("sticky = true\n"), "f")->vports[0].fdb_limit);
  EXPECT_EQ(absl::nullopt, ParseConfig(WithVPort(""), "f")->vports[0].fdb_limit);
  const auto of_ves = ParseConfig(
      WithVes("vport_fdb_limit = 7\n[[vport]]\nname = 'p1'\nves = 'blue'\nsticky = true\n"), "f");
  EXPECT_EQ(absl::nullopt, of_ves->vports[0].fdb_limit);
}

TEST(ConfigTest, ReadsFlood) {
  EXPECT_EQ(FloodMode::kGroup, ParseConfig(WithVes(""), "f")->veses[0].flood);
  EXPECT_EQ(FloodMode::kGroup, ParseConfig(WithVes("flood = 'group'\n"), "f")->veses[0].flood);
  EXPECT_EQ(FloodMode::kReplicate,
            ParseConfig(WithVes("flood = 'replicate'\n"), "f")->veses[0].flood);
}

TEST(ConfigTest, ReadsHeader) {
  EXPECT_EQ(HeaderForm::kEoib, ParseConfig(WithVes(""), "f")->veses[0].header);
  EXPECT_EQ(HeaderForm::kEoib, ParseConfig(WithVes("header = 'eoib'\n"), "f")->veses[0].header);
  EXPECT_EQ(HeaderForm::kAlternative,
            ParseConfig(WithVes("header = 'xve'\n"), "f")->veses[0].header);
}

TEST(ConfigTest, ReadsGroupFwdMask) {
  EXPECT_EQ(0xfff9, ParseConfig(WithVes(""), "f")->veses[0].group_fwd_mask);
  const std::pair<const char*, uint16_t> kMasks[] = {
      {"0", 0}, {"0x4", 4}, {"'0x4001'", 0x4001}, {"0xfffd", 0xfffd}, {"0b100", 4}};
  for (const auto& [text, mask] : kMasks) {
    const auto config = ParseConfig(WithVes(absl::StrCat("group_fwd_mask = ", text, "\n")), "f");
    ASSERT_EQ("OK", ErrorOf(config)) << text;
    EXPECT_EQ(mask, config->veses[0].group_fwd_mask) << text;
  }
}

TEST(ConfigTest, ReadsMoveDamping) {
  using Action = MoveDamper::Action;
  const std::pair<const char*, Action> kActions[] = {
      {"off", Action::kOff},
      {"warn", Action::kWarn},
      {"freeze", Action::kFreeze},
      {"freeze_until_thawed", Action::kFreezeUntilThawed}};
  for (const auto& [name, action] : kActions) {
    const auto config = ParseConfig(WithVes(absl::StrCat("move_damping = '", name, "'\n")), "f");
    ASSERT_EQ("OK", ErrorOf(config));
    EXPECT_EQ(action, config->veses[0].damping.action) << name;
  }
}

TEST(ConfigTest, ReadsParametersOfTheFloodGroup) {
  const auto config =
      ParseConfig(WithVes("mtu = 1024\nsl = 5\ntraffic_class = 184\nhop_limit = 1\n"), "f");
  ASSERT_EQ("OK", ErrorOf(config));
  const GroupParameters& group = config->veses[0].group;
  EXPECT_EQ(1024, group.mtu);
  EXPECT_EQ(Sl(5), group.sl);
  EXPECT_EQ(184, group.traffic_class);
  EXPECT_EQ(1, group.hop_limit);
  const GroupParameters unsaid = ParseConfig(WithVes(""), "f")->veses[0].group;
  EXPECT_EQ(absl::nullopt, unsaid.mtu);
  EXPECT_EQ(Sl(0), unsaid.sl);
  EXPECT_EQ(0, unsaid.traffic_class);
  EXPECT_EQ(absl::nullopt, unsaid.hop_limit);
}

TEST(ConfigTest, RefusesParametersThatNoFloodGroupHas) {
  EXPECT_EQ("f:4: mtu is 1500; InfiniBand has 256, 512, 1024, 2048 and 4096",
            ErrorOf(ParseConfig(WithVes("mtu = 1500\n"), "f")));
  EXPECT_EQ("f:4: mtu is 9000; it is an integer from 256 to 4096 bytes",
            ErrorOf(ParseConfig(WithVes("mtu = 9000\n"), "f")));
  EXPECT_EQ("f:4: sl is 16; it is an integer from 0 to 15",
            ErrorOf(ParseConfig(WithVes("sl = 16\n"), "f")));
  EXPECT_EQ("f:4: traffic_class is -1; it is an integer from 0 to 255",
            ErrorOf(ParseConfig(WithVes("traffic_class = -1\n"), "f")));
  EXPECT_EQ("f:4: hop_limit is 256; it is an integer from 0 to 255",
            ErrorOf(ParseConfig(WithVes("hop_limit = 256\n"), "f")));
}

TEST(ConfigTest, ReadsEveryKeyOfATrunk) {
  const auto config = ParseConfig(
      WithVPort(
          "type = 'test'\nmac = '02:5E:10:00:00:01'\nmode = 'trunk'\ntrunk_vlans = [10, "
          "'100-110']\n"
          "native_vlan = 10\nstatic_macs = ['02:00:00:00:00:05', '02:00:00:00:00:06']\nmtu = 68\n"),
      "f");
  ASSERT_EQ("OK", ErrorOf(config));
  ASSERT_EQ(1u, config->vports.size());
  const VPortConfig& vport = config->vports[0];
  EXPECT_EQ("p1", vport.name);
  EXPECT_EQ("blue", vport.ves);
  EXPECT_EQ(&kTestVPort, vport.kind);
  EXPECT_EQ(MacAddr::FromUint64(0x025e10000001), vport.mac);
  EXPECT_EQ(PortMode::kTrunk, vport.vlan.mode);
  EXPECT_EQ("10,100-110", vport.vlan.trunk_vlans.ToString());
  EXPECT_EQ(Vid(10), vport.vlan.native_vlan);
  EXPECT_THAT(vport.static_macs, ElementsAre(MacAddr::FromUint64(0x020000000005),
                                             MacAddr::FromUint64(0x020000000006)));
  EXPECT_EQ(68, vport.mtu);
  EXPECT_EQ(5, vport.line);
}

TEST(ConfigTest, DefaultsOfAVPort) {
  const auto config = ParseConfig(WithVPort(""), "f");
  ASSERT_EQ("OK", ErrorOf(config));
  const VPortConfig& vport = config->vports[0];
  EXPECT_EQ(&kTapVPort, vport.kind);
  EXPECT_EQ(absl::nullopt, vport.mac);
  EXPECT_EQ(PortMode::kAccess, vport.vlan.mode);
  EXPECT_EQ(Vid(0), vport.vlan.access_vlan);
  EXPECT_THAT(vport.static_macs, IsEmpty());
  EXPECT_EQ(absl::nullopt, vport.mtu);
  EXPECT_EQ(absl::nullopt, vport.fdb_limit);
  EXPECT_FALSE(vport.sticky);
  EXPECT_TRUE(vport.pin_mac);
  EXPECT_FALSE(ParseConfig(WithVPort("pin_mac = false\n"), "f")->vports[0].pin_mac);
  EXPECT_EQ(1u, config->workers);
  EXPECT_EQ(8u, ParseConfig("workers = 8\n" + WithVPort(""), "f")->workers);
}

TEST(ConfigTest, AcceptsUnusualButValidValues) {
  const struct {
    const char* description;
    std::string toml;
  } kCases[] = {
      {"a vPort before its VES",
       "[[vport]]\nname='p1'\nves='blue'\n[[ves]]\nname='blue'\npkey=1\n"},
      {"inline arrays of tables",
       "ves = [{name = 'blue', pkey = 0x8001}]\nvport = [{name = 'p1', ves = 'blue'}]\n"},
      {"P_Key as a decimal string", "[[ves]]\nname='blue'\npkey='32769'\n"},
      {"the longest names",
       "[[ves]]\nname='abcdefghijklmnopqrstuvwxyz_.-012'\npkey=1\n"
       "[[vport]]\nname='fifteen-bytes-x'\nves='abcdefghijklmnopqrstuvwxyz_.-012'\n"},
      {"the lowest and highest values",
       WithVes("ageing=1000000\nfdb_limit=1\nvlans=[4094]\nqkey=0x80000000\n")},
      {"vlans all", WithVes("vlans = 'all'\n")},
      {"no other agent", WithVes("agents = []\n")},
      {"a range of one VLAN", WithVes("vlans = ['7-7', '8']\n")},
      {"the largest MTU", WithVPort("mtu = 9000\n")},
      {"a trunk of all VLANs of a VES of few", WithVPort("mode = 'trunk'\n")},
      {"a trunk with some VLANs that the VES does not carry",
       WithVPort("mode = 'trunk'\ntrunk_vlans = ['1-4094']\n")},
      {"the same MAC in two VESes",
       absl::StrCat(kBlue, "[[ves]]\nname='red'\npkey=2\n",
                    "[[vport]]\nname='a'\nves='blue'\nmac='02:00:00:00:00:01'\n"
                    "[[vport]]\nname='b'\nves='red'\nmac='02:00:00:00:00:01'\n")},
      {"the same static MAC in two VLANs",
       absl::StrCat(kBlue,
                    "[[vport]]\nname='a'\nves='blue'\nstatic_macs=['02:00:00:00:00:01']\n"
                    "[[vport]]\nname='b'\nves='blue'\naccess_vlan=10\n"
                    "static_macs=['02:00:00:00:00:01']\n")},
      {"the port's own MAC as a static one",
       WithVPort("mac='02:00:00:00:00:01'\nstatic_macs=['02:00:00:00:00:01']\n")},
  };
  for (const auto& c : kCases) EXPECT_EQ("OK", ErrorOf(ParseConfig(c.toml, "f"))) << c.description;
}

// As commands show them, and as an operator types them: vlans=10,20.
TEST(ConfigTest, VlansMayBeOneNumberOrAText) {
  EXPECT_EQ("10", ParseConfig(WithVes("vlans = 10\n"), "f")->veses[0].vlans.ToString());
  EXPECT_EQ("0,10,100-199",
            ParseConfig(WithVes("vlans = '0,10,100-199'\n"), "f")->veses[0].vlans.ToString());
}

TEST(ConfigTest, RefusalsNameTheLineAndARightValue) {
  const std::string kNameRule = "a name is 1 to 32 of the characters A-Z a-z 0-9 _ . -";
  const std::string kNetdevRule =
      "it is an interface's name: 1 to 15 bytes, without spaces, '/', ':' and '%', and not \"all\" "
      "or \"default\"";
  const std::string kVlanRule =
      "; a VLAN is an integer from 0 to 4094, a range of them a string such as \"100-199\"";
  const std::string kMaskRule =
      "; it is a number from 0x0000 to 0xffff, in which bit x passes frames to 01:80:c2:00:00:0x; "
      "the default, 0xfff9, is all but pause and LACP";
  const std::string kVlansRule = " = [0, 10, \"100-199\"] (0: untagged), or \"all\"";
  const struct {
    const char* description;
    std::string toml;
    std::string expected;
  } kCases[] = {
      {"unknown table", "[[ves]]\nname='b'\npkey=1\n[[vprot]]\n",
       "f:4: unknown key \"vprot\"; did you mean \"vport\"?"},
      {"unknown key at the top", "\nrundir = '/x'\n[[ves]]\nname='b'\npkey=1\n",
       "f:2: unknown key \"rundir\"; there are ves, vport, workers"},
      {"unknown key of a VES", WithVes("p_key = 3\n"),
       "f:4: unknown key \"p_key\" in [[ves]]; did you mean \"pkey\"?"},
      {"a key of a table above the tables", "fdb_limit = 9\n" + WithVPort(""),
       "f:1: unknown key \"fdb_limit\"; it is a key of [[ves]] and [[vport]]: write it below one "
       "of "
       "these, or delete the line"},
      {"unlike all keys of a VES", WithVes("colour = 3\n"),
       "f:4: unknown key \"colour\" in [[ves]]; there are name, pkey, vlans, header, "
       "group_fwd_mask, qkey, mtu, sl, traffic_class, hop_limit, ageing, fdb_limit, "
       "vport_fdb_limit, announce, agents, flood, move_damping, damping_moves, "
       "damping_window, damping_freeze"},
      {"unknown key of a vPort", WithVPort("access-vlan = 3\n"),
       "f:8: unknown key \"access-vlan\" in [[vport]]; did you mean \"access_vlan\"?"},
      {"a key with control characters", WithVes("\"a\\n\\u001b\" = 3\n"),
       "f:4: unknown key \"a\\n\\x1b\" in [[ves]]; there are name, pkey, vlans, header, "
       "group_fwd_mask, qkey, mtu, sl, traffic_class, hop_limit, ageing, fdb_limit, "
       "vport_fdb_limit, announce, agents, flood, move_damping, damping_moves, damping_window, "
       "damping_freeze"},
      {"an unknown way to flood", WithVes("flood = 'unicast'\n"),
       "f:4: flood is \"unicast\"; it is \"group\" or \"replicate\""},
      {"copies to agents that are not announced",
       WithVes("announce = false\nflood = 'replicate'\n"),
       "f:5: flood = \"replicate\" sends floods to the agents that announce themselves; remove "
       "announce = false"},
      {"an agent that is no list", WithVes("agents = 'fe80::1'\n"),
       "f:4: agents is \"fe80::1\"; write agents = [\"fe80::2:c903:e:b72\"]"},
      {"an agent by its host's name", WithVes("agents = ['fe80::1', 'h2']\n"),
       "f:4: agents has \"h2\"; the GID of a port is written \"fe80::2:c903:e:b72\", as "
       "`ibv_devinfo -v` shows it on its host"},
      {"an agent by a number", WithVes("agents = [\n1]\n"),
       "f:5: agents has 1; the GID of a port is written \"fe80::2:c903:e:b72\", as `ibv_devinfo "
       "-v` shows it on its host"},
      {"a group for an agent", WithVes("agents = ['ff12::1']\n"),
       "f:4: agents has \"ff12::1\"; that is the GID of a multicast group; write that of a port, "
       "such as \"fe80::2:c903:e:b72\""},
      {"no GID for an agent", WithVes("agents = ['::']\n"),
       "f:4: agents has \"::\"; that is the GID of no port; write one such as "
       "\"fe80::2:c903:e:b72\""},
      {"an agent twice", WithVes("agents = ['fe80::1',\n'fe80:0::1']\n"),
       "f:5: agents names fe80:0000:0000:0000:0000:0000:0000:0001 twice; remove one"},
      {"more agents than there can be", WithVes(absl::StrCat("agents = [", ManyGids(4097), "]\n")),
       "f:4: agents has 4097 GIDs; the most are 4096"},
      {"agents of a VES without the protocol", WithVes("announce = false\nagents = ['fe80::1']\n"),
       "f:5: agents says whose messages count, and announce = false ignores all; remove one of the "
       "two"},
      {"one bracket", "[ves]\nname='b'\npkey=1\n",
       "f:1: ves is a table; write [[ves]], with two brackets, above its keys"},
      {"no table at all", "vport = 3\n",
       "f:1: vport is 3; write [[vport]], with two brackets, above its keys"},
      {"an array of numbers", "ves = [\n1]\n",
       "f:2: ves is 1; write [[ves]], with two brackets, above its keys"},

      {"VES without a name", "[[ves]]\npkey = 1\n",
       "f:1: [[ves]] has no name; add name = \"blue\""},
      {"VES without a P_Key", "[[ves]]\nname = 'b'\n",
       "f:1: [[ves]] has no pkey; add pkey = 0x8001, the P_Key of its partition"},
      {"a VES name of another type", "[[ves]]\nname = 7\npkey = 1\n",
       "f:2: name is 7; " + kNameRule},
      {"an empty VES name", "[[ves]]\nname = ''\npkey = 1\n", "f:2: name is \"\"; " + kNameRule},
      {"a VES name with a space", "[[ves]]\nname = 'a b'\npkey = 1\n",
       "f:2: name is \"a b\"; " + kNameRule},
      {"a VES name too long", "[[ves]]\nname = 'abcdefghijklmnopqrstuvwxyz_.-0123'\npkey = 1\n",
       "f:2: name is \"abcdefghijklmnopqrstuvwxyz_.-0123\"; " + kNameRule},
      {"P_Key without 0x", "[[ves]]\nname='b'\npkey = 8001\n",
       "f:3: pkey is 8001; did you mean 0x8001? For the decimal number write 0x1f41"},
      {"P_Key 0", "[[ves]]\nname='b'\npkey = 0\n",
       "f:3: pkey is 0; it is a P_Key from 0x0001 to 0xffff such as 0x8001"},
      {"P_Key of base 0", "[[ves]]\nname='b'\npkey = 0x8000\n",
       "f:3: pkey is 32768; 0x8000 names no partition; its low 15 bits must not be 0"},
      {"P_Key too large", "[[ves]]\nname='b'\npkey = '0x18001'\n",
       "f:3: pkey is \"0x18001\"; it is a P_Key from 0x0001 to 0xffff such as 0x8001"},
      {"P_Key negative", "[[ves]]\nname='b'\npkey = -1\n",
       "f:3: pkey is -1; it is a P_Key from 0x0001 to 0xffff such as 0x8001"},
      {"P_Key no number", "[[ves]]\nname='b'\npkey = 'default'\n",
       "f:3: pkey is \"default\"; it is a P_Key from 0x0001 to 0xffff such as 0x8001"},
      {"P_Key with a fraction", "[[ves]]\nname='b'\npkey = 1.5\n",
       "f:3: pkey is a number with a fraction; it is a P_Key from 0x0001 to 0xffff such as 0x8001"},
      {"Q_Key not controlled", WithVes("qkey = 0x8001\n"),
       "f:4: qkey is 32769; it is a controlled Q_Key, from 0x80000000 to 0xffffffff"},
      {"Q_Key too large", WithVes("qkey = 0x180000000\n"),
       "f:4: qkey is 6442450944; it is a controlled Q_Key, from 0x80000000 to 0xffffffff"},
      {"ageing negative", WithVes("ageing = -1\n"),
       "f:4: ageing is -1; it is an integer from 0 to 1000000 seconds (0: never)"},
      {"ageing with a unit", WithVes("ageing = '5m'\n"),
       "f:4: ageing is \"5m\"; it is an integer from 0 to 1000000 seconds (0: never)"},
      {"a limit of nothing", WithVes("fdb_limit = 0\n"),
       "f:4: fdb_limit is 0; it is an integer from 1 to 10000000 MAC addresses"},
      {"a limit of nothing for each vPort", WithVes("vport_fdb_limit = 0\n"),
       "f:4: vport_fdb_limit is 0; it is an integer from 1 to 10000000 MAC addresses"},
      {"no worker", "workers = 0\n" + WithVes(""),
       "f:1: workers is 0; it is an integer from 1 to 8 threads"},
      {"more workers than an agent announces", "workers = 9\n" + WithVes(""),
       "f:1: workers is 9; it is an integer from 1 to 8 threads"},
      {"workers by a word", "workers = 'auto'\n" + WithVes(""),
       "f:1: workers is \"auto\"; it is an integer from 1 to 8 threads"},
      {"workers of a VES", WithVes("workers = 2\n"),
       "f:4: unknown key \"workers\" in [[ves]]; there are name, pkey, vlans, header, "
       "group_fwd_mask, qkey, mtu, sl, traffic_class, hop_limit, ageing, fdb_limit, "
       "vport_fdb_limit, announce, agents, flood, move_damping, "
       "damping_moves, damping_window, damping_freeze"},
      {"a limit of nothing for a vPort", WithVPort("fdb_limit = 0\n"),
       "f:8: fdb_limit is 0; it is an integer from 1 to 10000000 MAC addresses"},
      {"sticky no truth", WithVPort("sticky = 1\n"), "f:8: sticky is 1; it is true or false"},
      {"another header", WithVes("header = 'XVE'\n"),
       "f:4: header is \"XVE\"; it is \"eoib\" or \"xve\""},
      {"a header by its magic", WithVes("header = 0x8919\n"),
       "f:4: header is 35097; it is \"eoib\" or \"xve\""},
      {"the header's key misspelt", WithVes("headers = 'xve'\n"),
       "f:4: unknown key \"headers\" in [[ves]]; did you mean \"header\"?"},
      {"pause that passes", WithVes("group_fwd_mask = 0xffff\n"),
       "f:4: group_fwd_mask is 65535; bit 1 is 01:80:c2:00:00:01: pause frames are for the two "
       "ends of a link and never pass a switch; without that bit it is 0xfffd"},
      {"pause alone", WithVes("group_fwd_mask = '0x2'\n"),
       "f:4: group_fwd_mask is \"0x2\"; bit 1 is 01:80:c2:00:00:01: pause frames are for the two "
       "ends of a link and never pass a switch; without that bit it is 0x0000"},
      {"more groups than there are", WithVes("group_fwd_mask = 0x10000\n"),
       "f:4: group_fwd_mask is 65536" + kMaskRule},
      {"a reserved group by name", WithVes("group_fwd_mask = 'lacp'\n"),
       "f:4: group_fwd_mask is \"lacp\"" + kMaskRule},
      {"reserved groups as a list", WithVes("group_fwd_mask = [2]\n"),
       "f:4: group_fwd_mask is an array" + kMaskRule},
      {"the mask's key misspelt", WithVes("group_forward_mask = 4\n"),
       "f:4: unknown key \"group_forward_mask\" in [[ves]]; did you mean \"group_fwd_mask\"?"},
      {"pin_mac no truth", WithVPort("pin_mac = 'no'\n"),
       "f:8: pin_mac is \"no\"; it is true or false"},
      {"another kind of damping", WithVes("move_damping = 'drop'\n"),
       "f:4: move_damping is \"drop\"; it is \"freeze\", \"freeze_until_thawed\", \"warn\" or "
       "\"off\""},
      {"one move", WithVes("damping_moves = 1\n"),
       "f:4: damping_moves is 1; it is an integer from 2 to 8"},
      {"no window", WithVes("damping_window = 0\n"),
       "f:4: damping_window is 0; it is an integer from 1 to 86400 seconds"},
      {"a time for what has none", WithVes("move_damping = 'warn'\ndamping_freeze = 5\n"),
       "f:5: damping_freeze is for move_damping = \"freeze\"; remove one of the two"},
      {"vlans no VLAN", WithVes("vlans = 4095\n"), "f:4: vlans is 4095; write vlans" + kVlansRule},
      {"vlans an open list", WithVes("vlans = '1-10,'\n"),
       "f:4: vlans is \"1-10,\"; write vlans" + kVlansRule},
      {"no vlans", WithVes("vlans = []\n"),
       "f:4: vlans is an empty array; write vlans" + kVlansRule},
      {"VLAN 4095", WithVes("vlans = [1,\n4095]\n"), "f:5: vlans has 4095" + kVlanRule},
      {"a VLAN below 0", WithVes("vlans = [-1]\n"), "f:4: vlans has -1" + kVlanRule},
      {"a range backwards", WithVes("vlans = ['20-10']\n"), "f:4: vlans has \"20-10\"" + kVlanRule},
      {"a range beyond the end", WithVes("vlans = ['20-4095']\n"),
       "f:4: vlans has \"20-4095\"" + kVlanRule},
      {"half a range", WithVes("vlans = ['20-']\n"), "f:4: vlans has \"20-\"" + kVlanRule},
      {"two ranges in one", WithVes("vlans = ['1-2-3']\n"), "f:4: vlans has \"1-2-3\"" + kVlanRule},
      {"all among others", WithVes("vlans = [1, 'all']\n"), "f:4: vlans has \"all\"" + kVlanRule},
      {"two VESes of a name", "[[ves]]\nname='b'\npkey=1\n[[ves]]\nname='b'\npkey=2\n",
       "f:4: a second VES \"b\", the first is on line 1; each needs a name of its own"},
      {"two VESes of a partition", "[[ves]]\nname='b'\npkey=0x8001\n[[ves]]\nname='c'\npkey=1\n",
       "f:4: VES \"c\" has the partition of VES \"b\" on line 1 (P_Key 0x0001); a partition is one "
       "VES: give it another pkey"},

      {"vPort without a name", absl::StrCat(kBlue, "[[vport]]\nves='blue'\n"),
       "f:5: [[vport]] has no name; add name = \"eoib0\", which is also its interface's name"},
      {"vPort without a VES", absl::StrCat(kBlue, "[[vport]]\nname='p1'\n"),
       "f:5: [[vport]] has no ves; add ves = the name of a [[ves]]"},
      {"vPort of an unknown VES",
       absl::StrCat(kBlue, "[[ves]]\nname='red'\npkey=2\n[[vport]]\nname='p1'\nves='bleu'\n"),
       "f:10: there is no VES \"bleu\"; there are: blue, red"},
      {"vPort where there is no VES", "[[vport]]\nname='p1'\nves='blue'\n",
       "f:3: there is no VES \"blue\"; there is none: add a [[ves]]"},
      {"vPort name too long",
       absl::StrCat(kBlue, "[[vport]]\nname='sixteen-bytes-xx'\nves='blue'\n"),
       "f:6: name is \"sixteen-bytes-xx\"; " + kNetdevRule},
      {"vPort name with a slash", absl::StrCat(kBlue, "[[vport]]\nname='a/b'\nves='blue'\n"),
       "f:6: name is \"a/b\"; " + kNetdevRule},
      {"vPort name a pattern", absl::StrCat(kBlue, "[[vport]]\nname='tap%d'\nves='blue'\n"),
       "f:6: name is \"tap%d\"; " + kNetdevRule},
      {"vPort name a directory", absl::StrCat(kBlue, "[[vport]]\nname='..'\nves='blue'\n"),
       "f:6: name is \"..\"; " + kNetdevRule},
      {"a name that /proc/sys/net keeps for itself",
       absl::StrCat(kBlue, "[[vport]]\nname='all'\nves='blue'\n"),
       "f:6: name is \"all\"; " + kNetdevRule},
      {"unknown type", WithVPort("type = 'tun'\n"),
       "f:8: type is \"tun\"; it is \"tap\", \"test\", \"netdev\" or \"vhost-user\""},
      {"mac no address", WithVPort("mac = '02:00'\n"),
       "f:8: mac is \"02:00\"; a MAC address is written \"02:00:5e:10:00:01\""},
      {"mac a number", WithVPort("mac = 1\n"),
       "f:8: mac is 1; a MAC address is written \"02:00:5e:10:00:01\""},
      {"mac of a group", WithVPort("mac = '01:00:5e:00:00:01'\n"),
       "f:8: mac is \"01:00:5e:00:00:01\"; that is a group address; the first byte of a port's own "
       "is even, as in \"02:00:5e:10:00:01\""},
      {"mac zero", WithVPort("mac = '00:00:00:00:00:00'\n"),
       "f:8: mac is \"00:00:00:00:00:00\"; that is no address; write one such as "
       "\"02:00:5e:10:00:01\""},
      {"static_macs a string", WithVPort("static_macs = '02:00:00:00:00:01'\n"),
       "f:8: static_macs is \"02:00:00:00:00:01\"; write static_macs = [\"02:00:5e:10:00:01\"]"},
      {"static_macs with a group",
       WithVPort("static_macs = ['02:00:00:00:00:01',\n'ff:ff:ff:ff:ff:ff']\n"),
       "f:9: static_macs is \"ff:ff:ff:ff:ff:ff\"; that is a group address; the first byte of a "
       "port's own is even, as in \"02:00:5e:10:00:01\""},
      {"static_macs with one twice",
       WithVPort("static_macs = ['02:00:00:00:00:01',\n'2:0:0:0:0:1']\n"),
       "f:9: static_macs names 02:00:00:00:00:01 twice; remove one"},
      {"mtu too small", WithVPort("mtu = 67\n"),
       "f:8: mtu is 67; it is an integer from 68 to 9000 bytes"},
      {"mtu too large", WithVPort("mtu = 9001\n"),
       "f:8: mtu is 9001; it is an integer from 68 to 9000 bytes"},
      {"mtu true", WithVPort("mtu = true\n"),
       "f:8: mtu is true; it is an integer from 68 to 9000 bytes"},
      {"unknown mode", WithVPort("mode = 'hybrid'\naccess_vlan = 10\n"),
       "f:8: mode is \"hybrid\"; it is \"access\" or \"trunk\""},
      {"access_vlan of a trunk", WithVPort("mode = 'trunk'\naccess_vlan = 10\n"),
       "f:9: access_vlan is for mode = \"access\"; a trunk has trunk_vlans and native_vlan"},
      {"trunk_vlans of an access port", WithVPort("trunk_vlans = [10]\n"),
       "f:8: trunk_vlans is for trunks; add mode = \"trunk\", or use access_vlan"},
      {"native_vlan of an access port", WithVPort("mode = 'access'\nnative_vlan = 10\n"),
       "f:9: native_vlan is for trunks; add mode = \"trunk\", or use access_vlan"},
      {"access_vlan beyond the end", WithVPort("access_vlan = 4095\n"),
       "f:8: access_vlan is 4095; it is an integer from 0 to 4094 (0: untagged)"},
      {"access_vlan outside the VES", WithVPort("access_vlan = 11\n"),
       "f:8: access_vlan 11 is not in the vlans of VES \"blue\" (0,10,100-199); choose one of "
       "them, or add it there"},
      {"no access_vlan, but the VES has no untagged frames",
       "[[ves]]\nname='b'\npkey=1\nvlans=[5]\n[[vport]]\nname='p1'\nves='b'\n",
       "f:5: access_vlan 0 (untagged, the default) is not in the vlans of VES \"b\" (5); choose "
       "one of them, or add it there"},
      {"native_vlan outside trunk_vlans",
       WithVPort("mode = 'trunk'\ntrunk_vlans = ['100-110']\nnative_vlan = 10\n"),
       "f:10: native_vlan 10 is not in trunk_vlans (100-110); add it there"},
      {"native_vlan outside the VES", WithVPort("mode = 'trunk'\nnative_vlan = 11\n"),
       "f:9: native_vlan 11 is not in the vlans of VES \"blue\" (0,10,100-199); choose one of "
       "them, or add it there"},
      {"a trunk of nothing", WithVPort("mode = 'trunk'\ntrunk_vlans = [11]\n"),
       "f:9: no VLAN of trunk_vlans (11) is in the vlans of VES \"blue\" (0,10,100-199); the trunk "
       "would carry nothing"},
      {"a trunk with VLAN 4095",
       WithVPort("mode = 'trunk'\ntrunk_vlans = [4095]\nnative_vlan = 10\n"),
       "f:9: trunk_vlans has 4095" + kVlanRule},
      {"two vPorts of a name", WithVPort("[[vport]]\nname='p1'\nves='blue'\n"),
       "f:8: a second vPort \"p1\", the first is on line 5; each needs a name of its own"},
      {"two vPorts of a MAC",
       WithVPort("mac='02:00:00:00:00:01'\n[[vport]]\nname='p2'\nves='blue'\nmac='2:0:0:0:0:1'\n"),
       "f:9: mac 02:00:00:00:00:01 of vPort \"p2\" is also at vPort \"p1\" of the same VES on line "
       "5; each needs its own"},
      {"two vPorts of a static MAC in one VLAN",
       WithVPort("static_macs=['02:00:00:00:00:01']\n[[vport]]\nname='p2'\nves='blue'\nstatic_macs="
                 "['2:0:0:0:0:1']\n"),
       "f:9: static MAC 02:00:00:00:00:01 of vPort \"p2\" is also at vPort \"p1\" of the same VES "
       "on line 5; each needs its own"},
      {"a static MAC that is another vPort's own",
       WithVPort("mac='02:00:00:00:00:01'\n[[vport]]\nname='p2'\nves='blue'\nstatic_macs=['2:0:0:0:"
                 "0:1']\n"),
       "f:9: static MAC 02:00:00:00:00:01 of vPort \"p2\" is also at vPort \"p1\" of the same VES "
       "on line 5; each needs its own"},
  };
  for (const auto& c : kCases) {
    const auto config = ParseConfig(c.toml, "f");
    EXPECT_EQ(absl::StatusCode::kInvalidArgument, config.status().code()) << c.description;
    EXPECT_EQ(c.expected, ErrorOf(config)) << c.description << "\n" << c.toml;
  }
}

TEST(ConfigTest, ReportsAllMistakesInTheOrderOfTheFile) {
  const auto config = ParseConfig(
      "[[vport]]\nname = 'p1'\nves = 'red'\nmtu = 1\n[[ves]]\nname = 'blue'\npkey = 0x8000\ncolor "
      "= 'blue'\n[[wes]]\n",
      "eoibd.toml");
  EXPECT_EQ(
      "eoibd.toml:3: there is no VES \"red\"; there are: blue\n"
      "eoibd.toml:4: mtu is 1; it is an integer from 68 to 9000 bytes\n"
      "eoibd.toml:7: pkey is 32768; 0x8000 names no partition; its low 15 bits must not be 0\n"
      "eoibd.toml:8: unknown key \"color\" in [[ves]]; there are name, pkey, vlans, header, "
      "group_fwd_mask, qkey, mtu, sl, traffic_class, hop_limit, ageing, fdb_limit, "
      "vport_fdb_limit, announce, agents, flood, move_damping, damping_moves, "
      "damping_window, damping_freeze\n"
      "eoibd.toml:9: unknown key \"wes\"; did you mean \"ves\"?",
      ErrorOf(config));
}

TEST(ConfigTest, SyntaxErrorsHaveTheirLine) {
  const struct {
    const char* description;
    const char* toml;
    const char* expected;
  } kCases[] = {
      {"no value", "[[ves]]\nname =\npkey = 1\n", "f:2: this is not TOML: "},
      {"a string without end", "[[ves]]\nname = 'blue\n", "f:2: this is not TOML: "},
      {"a key twice", "[[ves]]\nname = 'b'\npkey = 1\nname = 'c'\n", "f:4: this is not TOML: "},
      {"not UTF-8", "[[ves]]\nname = '\xff\xff'\n", "f:2: this is not TOML: "},
      {"a header that ends with its line: an assertion of toml++ fails", "[[\n]]\n",
       "f:1: this is not TOML: "},
      {"a letter that toml++ takes for a space or not at random", "n\xc3\xa9 = 1\n",
       "f:1: this is not TOML: "},
      {"a header of something else", "[[?]]\n", "f:1: this is not TOML: "},
  };
  for (const auto& c : kCases)
    EXPECT_THAT(ErrorOf(ParseConfig(c.toml, "f")), StartsWith(c.expected)) << c.description;
}

TEST(ConfigTest, RefusesAnEmptyFileWithAWorkingExample) {
  for (const char* empty : {"", "\n", "# nothing yet\n"}) {
    const std::string error = ErrorOf(ParseConfig(empty, "f"));
    const std::string kIntroduction = "f:1: there is no VES; the least that works is:\n";
    ASSERT_THAT(error, StartsWith(kIntroduction));
    EXPECT_EQ("OK", ErrorOf(ParseConfig(error.substr(kIntroduction.size()), "example")));
  }
}

TEST(ConfigTest, LongValuesAreCutInMessages) {
  const std::string error = ErrorOf(
      ParseConfig(WithVPort(absl::StrCat("type = '", std::string(10000, 'x'), "'\n")), "f"));
  EXPECT_THAT(error, StartsWith("f:8: type is \"xxxx"));
  EXPECT_LT(error.size(), 200u);
}

class LoadConfigTest : public ::testing::Test {
 protected:
  const TempDir temporary_;
  const std::string directory_ = temporary_.path();
};

TEST_F(LoadConfigTest, NamesTheFileInMessages) {
  const std::string path = directory_ + "/eoibd.toml";
  std::ofstream(path) << "[[ves]]\nname = 'b'\npkey = 0\n";
  EXPECT_THAT(ErrorOf(LoadConfig(path)), StartsWith(path + ":3: pkey is 0; "));
}

TEST_F(LoadConfigTest, ErrorOfAMissingFileHasAnExample) {
  const auto config = LoadConfig(directory_ + "/none.toml");
  EXPECT_EQ(absl::StatusCode::kNotFound, config.status().code());
  EXPECT_THAT(
      ErrorOf(config),
      HasSubstr("none.toml: there is no such file; write it, the least that works is:\n[[ves]]\n"));
}

TEST_F(LoadConfigTest, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, LoadConfig(directory_).status().code());
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, LoadConfig("/dev/zero").status().code());
}

TEST(ConfigExampleTest, TheShippedExampleParses) {
  const auto config = LoadConfig(EOIB_EXAMPLES "/eoibd.toml");
  ASSERT_EQ("OK", ErrorOf(config));
  ASSERT_EQ(2u, config->veses.size());
  EXPECT_EQ(PKey(0x8002), config->veses[1].pkey);
  EXPECT_EQ("0,10,100-199", config->veses[0].vlans.ToString());
  ASSERT_EQ(5u, config->vports.size());
  EXPECT_EQ(PortMode::kAccess, config->vports[0].vlan.mode);
  EXPECT_EQ(PortMode::kTrunk, config->vports[1].vlan.mode);
  EXPECT_EQ(2u, config->vports[2].static_macs.size());
}

}  // namespace
}  // namespace eoib
