// `eoibctl check` and `show`, when a ping does not work: they say why, and what to do.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class SoftCheckTest : public SwitchTest {
 protected:
  // Returns the check of the first agent as soon as it has `text`.
  std::string WaitForCheck(absl::string_view text) {
    std::string check;
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      check = agent(1).Ctl({"check"}).out;
      return absl::StrContains(check, text);
    })) << check;
    return check;
  }
  static AgentSpec Spec(const VPortSpec& vport, const VesSpec& ves = VesSpec()) {
    AgentSpec spec;
    spec.veses = {ves};
    spec.vports = {vport};
    return spec;
  }
};

TEST_F(SoftCheckTest, AllIsWellBetweenTwoAgents) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  const std::string check = WaitForCheck("1 other agents are reachable");
  EXPECT_THAT(check, AllOf(HasSubstr("VES red\n"), Not(HasSubstr("  fail")),
                           Not(HasSubstr("  note")), Not(HasSubstr("->"))));
  for (const char* what : {"port", "membership", "group", "interface", "peers", "MTU", "VLANs"})
    EXPECT_THAT(check, ContainsRegex(absl::StrCat("\n  ok    ", what, " ")));
}

TEST_F(SoftCheckTest, ALimitedMember) {
  StartFabric({{.pkey = 0x8001, .full = {}, .limited = {"ALL"}}});
  LaunchAgent("h1", AgentSpec());
  const std::string check = WaitForCheck("limited member: reaches full members only");
  EXPECT_THAT(check, HasSubstr("-> hosts that shall reach each other need one full member"));
  EXPECT_THAT(agent(1).MustCtl({"show"}),
              HasSubstr("  limited member: reaches full members only\n"));
}

TEST_F(SoftCheckTest, AnAgentThatWasKilled) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  agent(2).Kill(SIGKILL);
  agent(2).Wait();
  host(1)->Start({"ping", "-i", "0.1", Address(2)});
  const std::string check = WaitForCheck("fail  peers       lost: ");
  EXPECT_THAT(check, HasSubstr("-> do they run?"));
  EXPECT_THAT(agent(1).MustCtl({"show"}), HasSubstr(", 0 peers (1 lost)"));
  agent(2).Start();
}

TEST_F(SoftCheckTest, OtherVlans) {
  AddAgent("h1", Spec({"v1", "red", "access_vlan = 10\n"}));
  AddAgent("h2", Spec({"v1", "red", "access_vlan = 20\n"}));
  EXPECT_THAT(WaitForCheck("note  VLANs"),
              HasSubstr("no other agent that is reachable has a VLAN of v1 (VLAN 10)"));
}

TEST_F(SoftCheckTest, InterfaceDownOrWithAnotherMtu) {
  AddAgent("h1", Spec({"v1"}));
  host(1)->MustIp("link set v1 down");
  EXPECT_THAT(WaitForCheck("fail  interface   v1: the interface is down"),
              HasSubstr("-> ip link set v1 up"));
  host(1)->MustIp("link set v1 up mtu 9000");
  EXPECT_THAT(WaitForCheck("another program has set MTU 9000"), HasSubstr("mtu 40"));
}

TEST_F(SoftCheckTest, PKeyThatThePortHasNot) {
  StartFabric({PartitionSpec()});
  LaunchAgent("h1", Spec({"v1"}, {"red", 0x8007}));
  EXPECT_THAT(WaitForCheck("fail  membership  P_Key 0x8007 is not in the port's table"),
              HasSubstr("-> make this port a member of the partition"));
}

}  // namespace
}  // namespace eoib::lab
