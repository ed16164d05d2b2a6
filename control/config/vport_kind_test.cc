#include "control/config/vport_kind.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "control/config/config.h"
#include "control/config/config_diff.h"
#include "control/config/config_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A VES on lines 1 to 3, then the vPort p1 of this type on lines 4 to 7. `lines` begin on 8.
std::string WithType(absl::string_view type, absl::string_view lines) {
  return absl::StrCat(
      "[[ves]]\nname = 'blue'\npkey = 0x8001\n[[vport]]\nname = 'p1'\nves = 'blue'\ntype = '", type,
      "'\n", lines);
}
std::string WithNetdev(absl::string_view lines) { return WithType("netdev", lines); }
std::string WithVhost(absl::string_view lines) { return WithType("vhost-user", lines); }

TEST(NetdevKindTest, ReadsTheNetdev) {
  const auto config = ParseConfig(
      WithNetdev("netdev = 'eth1'\nmode = 'trunk'\nstatic_macs = ['02:00:00:00:00:01']\n"), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vports[0].kind, &kNetdevVPort);
  EXPECT_EQ(config->vports[0].netdev, "eth1");
  EXPECT_EQ(ParseConfig("[[ves]]\nname = 'b'\npkey = 1\n[[vport]]\nname = 'p1'\nves = 'b'\n", "f")
                ->vports[0]
                .netdev,
            "");
}

TEST(NetdevKindTest, NetdevBelongsToItsType) {
  EXPECT_THAT(MistakesOf(WithNetdev("")),
              HasSubstr("f:4: [[vport]] has no netdev; add netdev = \"eth1\""));
  for (const char* wrong : {"''", "'eth%d'", "'a name'", "'sixteen-bytes-it'", "7"}) {
    EXPECT_THAT(MistakesOf(WithNetdev(absl::StrCat("netdev = ", wrong, "\n"))),
                HasSubstr("it is the name of an interface of this host"))
        << wrong;
  }
  EXPECT_THAT(
      MistakesOf(
          "[[ves]]\nname = 'b'\npkey = 1\n[[vport]]\nname = 'p1'\nves = 'b'\nnetdev = 'eth1'\n"),
      HasSubstr("f:7: netdev is for type = \"netdev\"; add that, or remove netdev"));
}

TEST(NetdevKindTest, KeysOfWhatItLeavesAloneAreMistakes) {
  EXPECT_THAT(
      MistakesOf(WithNetdev(
          "netdev = 'eth1'\nmac = '02:00:00:00:00:01'\nmtu = 1500\nup = true\npin_mac = false\n")),
      AllOf(
          HasSubstr("f:9: mac is not for type = \"netdev\": the netdev keeps its MAC"),
          HasSubstr("f:10: mtu is not for type = \"netdev\": the netdev keeps its MTU"),
          HasSubstr("f:11: up is not for type = \"netdev\": the agent does not set the netdev up"),
          HasSubstr("f:12: pin_mac is not for type = \"netdev\": the vPort has no MAC of its own; "
                    "use static_macs")));
}

TEST(NetdevKindTest, ANetdevHasOneVPort) {
  const std::string two = WithNetdev(
      "netdev = 'eth1'\n[[vport]]\nname = 'p2'\nves = 'blue'\ntype = 'netdev'\nnetdev = 'eth1'\n");
  EXPECT_THAT(
      MistakesOf(two),
      HasSubstr("f:9: netdev \"eth1\" of vPort \"p2\" is also that of vPort \"p1\" on line 4"));
  const std::string tap = WithNetdev("netdev = 'web1'\n[[vport]]\nname = 'web1'\nves = 'blue'\n");
  EXPECT_THAT(
      MistakesOf(tap),
      HasSubstr("f:4: netdev \"web1\" of vPort \"p1\" is the TAP of vPort \"web1\" on line 9; give "
                "one of the two vPorts another name"));
}

TEST(NetdevKindTest, AnotherNetdevReplacesTheInterface) {
  const AgentConfig before = *ParseConfig(WithNetdev("netdev = 'eth1'\n"), "f");
  EXPECT_TRUE(ConfigDiff::Between(before, before).empty());
  const ConfigDiff diff =
      ConfigDiff::Between(before, *ParseConfig(WithNetdev("netdev = 'eth2'\n"), "f"));
  EXPECT_THAT(diff.text, HasSubstr("replace vPort p1"));
}

TEST(VhostKindTest, ReadsTheSocket) {
  const auto config =
      ParseConfig(WithVhost("socket = '/run/vm1.sock'\nmtu = 9000\nmode = 'trunk'\n"), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->vports[0].kind, &kVhostVPort);
  EXPECT_EQ(config->vports[0].socket, "/run/vm1.sock");
  EXPECT_FALSE(config->vports[0].connects);
  EXPECT_FALSE(
      ParseConfig(WithVhost("socket = '/s'\nsocket_mode = 'server'\n"), "f")->vports[0].connects);
  EXPECT_TRUE(
      ParseConfig(WithVhost("socket = '/s'\nsocket_mode = 'client'\n"), "f")->vports[0].connects);
}

TEST(VhostKindTest, SocketBelongsToItsType) {
  EXPECT_THAT(MistakesOf(WithVhost("")),
              HasSubstr("f:4: [[vport]] has no socket; add socket = \"/run/eoib/vm1.sock\""));
  for (const std::string& wrong :
       {std::string("''"), std::string("'vm1.sock'"), std::string("'/'"), std::string("'/run/'"),
        std::string("7"), absl::StrCat("'/", std::string(107, 'x'), "'")}) {
    EXPECT_THAT(MistakesOf(WithVhost(absl::StrCat("socket = ", wrong, "\n"))),
                HasSubstr("it is the path of a socket"))
        << wrong;
  }
  EXPECT_THAT(MistakesOf(WithVhost("socket = '/s'\nsocket_mode = 'listen'\n")),
              HasSubstr("f:9: socket_mode"));
  EXPECT_THAT(
      MistakesOf("[[ves]]\nname = 'b'\npkey = 1\n[[vport]]\nname = 'p1'\nves = 'b'\nsocket = "
                 "'/s'\nsocket_mode = 'client'\n"),
      AllOf(HasSubstr("f:7: socket is for type = \"vhost-user\"; add that, or remove socket"),
            HasSubstr("f:8: socket_mode is for type = \"vhost-user\"")));
}

TEST(VhostKindTest, KeysOfTheGuestAreMistakes) {
  EXPECT_THAT(
      MistakesOf(
          WithVhost("socket = '/s'\nmac = '02:00:00:00:00:01'\nup = true\npin_mac = false\n")),
      AllOf(
          HasSubstr("f:9: mac is not for type = \"vhost-user\": the guest has its own MAC"),
          HasSubstr("f:10: up is not for type = \"vhost-user\": the guest sets its interface up"),
          HasSubstr(
              "f:11: pin_mac is not for type = \"vhost-user\": the vPort has no MAC of its own")));
}

TEST(VhostKindTest, ASocketHasOneVPort) {
  EXPECT_THAT(
      MistakesOf(WithVhost("socket = '/s'\n[[vport]]\nname = 'p2'\nves = 'blue'\ntype = "
                           "'vhost-user'\nsocket = '/s'\n")),
      HasSubstr("f:9: socket \"/s\" of vPort \"p2\" is also that of vPort \"p1\" on line 4"));
}

TEST(VhostKindTest, AnotherSocketReplacesTheInterface) {
  const AgentConfig before = *ParseConfig(WithVhost("socket = '/s'\n"), "f");
  EXPECT_TRUE(ConfigDiff::Between(before, before).empty());
  for (const char* other : {"socket = '/t'\n", "socket = '/s'\nsocket_mode = 'client'\n"}) {
    EXPECT_THAT(ConfigDiff::Between(before, *ParseConfig(WithVhost(other), "f")).text,
                HasSubstr("replace vPort p1"))
        << other;
  }
}

}  // namespace
}  // namespace eoib
