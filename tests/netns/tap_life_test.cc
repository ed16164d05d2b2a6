// The life of an agent's TAPs: over restarts, renames and moves, with other owners, and after their
// deletion.
#include <signal.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TapLifeTest : public SwitchTest {
 protected:
  std::string Link(int number, const std::string& name = "v1") {
    return host(number)->MustIp("-d link show " + name);
  }
};

TEST_F(TapLifeTest, TapStaysInItsBridgeOverAnOrderlyRestart) {
  AddAgent("h1");
  AddAgent("h2");
  host(1)->AddBridge("br0", {"v1"});
  host(1)->AddAddress("br0", "10.0.0.1/24");
  host(2)->AddAddress("v1", "10.0.0.2/24");
  ExpectPing(host(1), "10.0.0.2");
  const std::string before = host(1)->MustIp("-o link show v1");
  ASSERT_EQ(agent(1).Stop(), 0) << agent(1).Log();
  EXPECT_THAT(Link(1), HasSubstr("master br0"));
  EXPECT_THAT(Link(1), HasSubstr("NO-CARRIER"));
  agent(1).Start();
  EXPECT_EQ(host(1)->MustIp("-o link show v1").substr(0, 5), before.substr(0, 5))
      << "it has the same index";
  EXPECT_TRUE(Reaches(host(2), "10.0.0.1", kPatience, "0.1"));
  ExpectPing(host(2), "10.0.0.1");
}

TEST_F(TapLifeTest, OnlyTheConfigurationRemovesATap) {
  AgentSpec spec;
  spec.vports = {{"v1"}, {"v2"}};
  AddAgent("h1", spec);
  EXPECT_TRUE(host(1)->HasInterface("v2"));
  EXPECT_THAT(agent(1).MustCtl({"vport", "del", "v2"}), HasSubstr("remove vPort v2"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !host(1)->HasInterface("v2"); }));
  EXPECT_TRUE(host(1)->HasInterface("v1"));
}

TEST_F(TapLifeTest, TapOfAVPortThatLeftMeanwhileIsReported) {
  AgentSpec spec;
  spec.vports = {{"v1"}, {"v2"}};
  AddAgent("h1", spec);
  agent(1).MustCtl({"vport", "add", "v3", "ves=red"});
  agent(1).MustCtl({"vport", "add", "v4", "ves=red", "--temporary"});
  ASSERT_EQ(agent(1).Stop(), 0) << agent(1).Log();
  EXPECT_THAT(agent(1).Log(), HasSubstr("unsaved, so the next start will not know of it: vport "
                                        "add v4 ves=red (temporary)"));
  std::filesystem::remove(agent(1).directory() + "/eoibd.d/live.toml");
  agent(1).Start();
  EXPECT_THAT(
      agent(1).Log(),
      HasSubstr("interface v3 is left from vPort v3, which was removed while no agent ran"));
  EXPECT_THAT(agent(1).Log(), HasSubstr("interface v4 is left from vPort v4, which was added "
                                        "without being saved; `eoibctl vport add v4 ves=red` adds "
                                        "it again, `ip link del v4` removes it"));
  EXPECT_THAT(agent(1).Log(), testing::Not(HasSubstr("interface v2 is left")));
  agent(1).MustCtl({"vport", "add", "v4", "ves=red"});
  EXPECT_THAT(agent(1).MustCtl({"show"}), HasSubstr("vPort v4"));
  host(1)->MustIp("link del v3");
}

TEST_F(TapLifeTest, TapOfAnOperatorIsTakenOverAndNeverRemoved) {
  Host* const h1 = lab().AddHost("pre");
  h1->MustIp("tuntap add mode tap name v1");
  h1->MustIp("link set v1 alias mine");
  const auto agent = std::make_unique<Agent>(&lab(), &fabric(), h1, AgentSpec());
  agent->Start();
  EXPECT_THAT(h1->MustIp("-d link show v1"), HasSubstr("alias mine"));
  agent->MustCtl({"vport", "del", "v1"});
  EXPECT_TRUE(h1->HasInterface("v1"));
  agent->MustCtl({"vport", "add", "v1", "ves=red"});
  EXPECT_EQ(agent->Stop(), 0) << agent->Log();
  EXPECT_TRUE(h1->HasInterface("v1"));
}

TEST_F(TapLifeTest, RenamedTapIsFoundAgainAfterAKill) {
  AddAgent("h1");
  AddAgent("h2");
  host(2)->AddAddress("v1", "10.0.0.2/24");
  host(1)->MustIp("link set v1 down");
  host(1)->MustIp("link set v1 name tenant7");
  host(1)->MustIp("link set tenant7 up");
  host(1)->AddAddress("tenant7", "10.0.0.1/24");
  ExpectPing(host(1), "10.0.0.2");
  agent(1).Kill(SIGKILL);
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !agent(1).Alive(); }));
  agent(1).Launch();
  EXPECT_TRUE(Reaches(host(1), "10.0.0.2", kPatience, "0.1"));
  EXPECT_FALSE(host(1)->HasInterface("v1")) << "a second one with the same MAC";
}

TEST_F(TapLifeTest, TapInAnotherNamespaceIsFoundAgainAfterAKill) {
  AddAgent("h1");
  AddAgent("h2");
  Host* const container = lab().AddHost("container");
  host(2)->AddAddress("v1", "10.0.0.2/24");
  host(1)->MustIp(absl::StrCat("link set v1 netns ", container->holder()));
  container->SetUp("v1");
  container->AddAddress("v1", "10.0.0.1/24");
  ExpectPing(container, "10.0.0.2");
  agent(1).Kill(SIGKILL);
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !agent(1).Alive(); }));
  agent(1).Launch();
  EXPECT_TRUE(Reaches(container, "10.0.0.2", kPatience, "0.1"));
  EXPECT_FALSE(host(1)->HasInterface("v1"));
}

TEST_F(TapLifeTest, DeletedTapIsReportedAndMadeAgain) {
  AddAgent("h1");
  AddAgent("h2");
  const std::string mac = host(1)->Mac("v1");
  host(2)->AddAddress("v1", "10.0.0.2/24");
  host(1)->MustIp("link delete v1");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return host(1)->HasInterface("v1"); }));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(agent(1).Log(), "was deleted by another program");
  }));
  EXPECT_EQ(host(1)->Mac("v1"), mac);
  host(1)->AddAddress("v1", "10.0.0.1/24");
  EXPECT_TRUE(Reaches(host(1), "10.0.0.2", kPatience, "0.1"));
}

TEST_F(TapLifeTest, DeletedTapWhoseNameIsTakenIsReportedUntilTheNameIsFree) {
  AddAgent("h1");
  host(1)->MustIp("link set v1 down");
  host(1)->MustIp("link set v1 name other");
  host(1)->MustIp("link add v1 type bridge");
  host(1)->MustIp("link delete other");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    const std::string show = agent(1).Ctl({"show"}).out;
    return absl::StrContains(show, "its interface was deleted: ") &&
           absl::StrContains(show, "it is a bridge of another owner");
  })) << agent(1).Ctl({"show"}).out;
  EXPECT_THAT(agent(1).Log(), Not(HasSubstr("delete it")));
  host(1)->MustIp("link delete v1");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return host(1)->HasInterface("v1"); }));
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return !absl::StrContains(agent(1).Ctl({"show"}).out, "was deleted"); }));
}

TEST_F(TapLifeTest, TapGetsNoIpv6AddressUnasked) {
  AgentSpec spec;
  spec.vports = {{"v1"}, {"v2", "red", "up = false\n"}};
  Agent& agent = LaunchAgent("h1", spec, {.ipv6 = true});
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(agent.Ctl({"show"}).out, ": joined"); }));
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(Link(1), "state UP"); }))
      << Link(1);
  EXPECT_THAT(Link(1), HasSubstr("addrgenmode none"));
  EXPECT_EQ(host(1)->MustIp("-6 addr show dev v1"), "");
  EXPECT_THAT(Link(1, "v2"), HasSubstr("state DOWN"));
}

TEST_F(TapLifeTest, AgentIgnoresSignalsThatMeanNothing) {
  AddAgent("h1");
  agent(1).Kill(SIGUSR1);
  agent(1).Kill(SIGUSR2);
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(agent(1).Log(), "ignored: SIGHUP reloads"); }));
  EXPECT_THAT(agent(1).MustCtl({"show"}), HasSubstr("joined"));
}

}  // namespace
}  // namespace eoib::lab
