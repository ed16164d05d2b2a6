// Changes of the configuration while agents run.
#include <signal.h>

#include <filesystem>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/resources.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/traffic.h"
#include "tests/lab/windowed_stream.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReloadTest : public SwitchTest {
 protected:
  void Write(int number, const AgentSpec& spec) {
    WriteFile(agent(number).directory() + "/eoibd.toml", ToToml(spec));
  }
  static AgentSpec Spec(const std::vector<VPortSpec>& vports) {
    AgentSpec spec;
    spec.vports = vports;
    return spec;
  }
  bool Has(int number, const std::string& interface) {
    return host(number)->HasInterface(interface);
  }
};

// At half of what it can forward, in both directions at once.
TEST_F(ReloadTest, UntouchedVPortLosesNothingWhileOthersComeAndGo) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  WindowedStream there(host(1), Address(1), host(2), Address(2), 7000);
  WindowedStream back(host(2), Address(2), host(1), Address(1), 7001);
  const uint64_t kMeasured = 50'000 / fabric().Slowdown();
  const double rates[] = {there.Measure(kMeasured), back.Measure(kMeasured)};
  there.SetRate(rates[0] / 2);
  back.SetRate(rates[1] / 2);
  const uint64_t lost[] = {there.lost(), back.lost()}, sent = there.received();
  const uint64_t received = agent(1).Stat("v1.received");
  for (int round = 0; round < 10; ++round) {
    agent(1).MustCtl({"vport", "add", "v2", "ves=red", "access_vlan=7"});
    agent(1).MustCtl({"vport", "set", "v2", "access_vlan=8"});
    agent(1).MustCtl({"ves", "add", "blue", "pkey=0x8002"});
    agent(1).MustCtl({"vport", "del", "v2"});
    agent(1).MustCtl({"ves", "set", "red", absl::StrCat("ageing=", 100 + round)});
    agent(1).MustCtl({"ves", "del", "blue"});
  }
  there.Drain();
  back.Drain();
  std::cout << "half of " << rates[0] << " and " << rates[1] << " datagrams a second, "
            << there.received() - sent << " during the changes\n";
  EXPECT_EQ(there.lost() - lost[0], 0u)
      << agent(1).MustCtl({"drops"}) << agent(2).MustCtl({"drops"});
  EXPECT_EQ(back.lost() - lost[1], 0u)
      << agent(1).MustCtl({"drops"}) << agent(2).MustCtl({"drops"});
  EXPECT_GT(there.received(), sent);
  EXPECT_GT(agent(1).Stat("v1.received"), received) << "its counters go on";
}

// The vPort is the only one of its VES.
TEST_F(ReloadTest, LimitAndMtuChangeInPlace) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  SteadyPing ping(host(1), Address(2));
  EXPECT_EQ(agent(1).MustCtl({"vport", "set", "v1", "fdb_limit=7", "mtu=1400"}),
            "change vPort v1, in place\n");
  ping.ExpectNoLoss();
  EXPECT_THAT(host(1)->MustIp("link show v1"), HasSubstr("mtu 1400"));
  EXPECT_THAT(agent(1).MustCtl({"fdb", "stats"}), HasSubstr(" 7"));
  const uint64_t received = agent(1).Stat("v1.received");
  agent(1).MustCtl({"vport", "set", "v1", "access_vlan=5"});
  agent(1).MustCtl({"vport", "set", "v1", "access_vlan=0"});
  EXPECT_TRUE(Reaches(host(1), Address(2), kPatience, "0.1"));
  EXPECT_THAT(agent(1).Log(), Not(HasSubstr("carrier down"))) << "it stays in the group";
  EXPECT_GE(agent(1).Stat("v1.received"), received) << "its counters go on";
}

TEST_F(ReloadTest, HangupAppliesTheFileOrNothing) {
  AddAgent("h1", Spec({{"v1"}, {"v2"}}));
  Write(1, Spec({{"v1"}, {"v3", "red", "access_vlan = 5\n"}}));
  EXPECT_THAT(agent(1).MustCtl({"config", "diff"}),
              AllOf(HasSubstr("remove vPort v2"), HasSubstr("add vPort v3"),
                    HasSubstr("because of:\n"), HasSubstr("+access_vlan = 5\n")));
  EXPECT_TRUE(Has(1, "v2"));
  agent(1).Kill(SIGHUP);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return Has(1, "v3") && !Has(1, "v2"); }))
      << agent(1).Log();
  EXPECT_THAT(agent(1).MustCtl({"config", "diff"}), HasSubstr("would change nothing"));

  Write(1, Spec({{"v4"}, {"v5", "red", "mtu = \"big\"\n"}, {"v6", "green"}}));
  const RunResult refused = agent(1).Ctl({"reload"});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err, AllOf(HasSubstr("mtu is \"big\""), HasSubstr("no VES \"green\"")));
  agent(1).Kill(SIGHUP);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(agent(1).Log(), "reload: nothing is changed: ");
  }));
  EXPECT_TRUE(Has(1, "v1"));
  EXPECT_TRUE(Has(1, "v3"));
  EXPECT_FALSE(Has(1, "v4"));
}

TEST_F(ReloadTest, ReloadThatCannotMakeAnInterfaceChangesNothing) {
  AddAgent("h1", Spec({{"v1"}}));
  host(1)->MustIp("link add v3 type bridge");
  Write(1, Spec({{"v1", "red", "access_vlan = 3\n"}, {"v2"}, {"v3"}}));
  const RunResult refused = agent(1).Ctl({"reload"});
  EXPECT_THAT(
      refused.err,
      HasSubstr("make TAP v3: a netdev of that name exists, and it is a bridge of another owner"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return !Has(1, "v2"); }))
      << "it was made for this reload";
  EXPECT_THAT(agent(1).MustCtl({"show"}),
              AllOf(HasSubstr("access VLAN 0"), Not(HasSubstr("vPort v2"))));
}

TEST_F(ReloadTest, DropInsCountAndChangesAreSavedIntoTheRightFile) {
  AddAgent("h1", Spec({{"v1"}}));
  const std::string drop_ins = agent(1).directory() + "/eoibd.d";
  host(1)->MustRun({"mkdir", drop_ins});
  WriteFile(drop_ins + "/tenant.toml", "# a tenant\n[[vport]]\nname = \"t1\"\nves = \"red\"\n");
  agent(1).MustCtl({"reload"});
  EXPECT_TRUE(Has(1, "t1"));
  agent(1).MustCtl({"vport", "set", "t1", "access_vlan=9"});
  EXPECT_EQ(agent(1).MustCtl({"vport", "add", "v2", "ves=red"}), "add vPort v2\n");
  EXPECT_THAT(host(1)->MustRun({"cat", drop_ins + "/tenant.toml"}),
              HasSubstr("ves = \"red\"\naccess_vlan = 9\n"));
  EXPECT_THAT(host(1)->MustRun({"cat", drop_ins + "/live.toml"}), HasSubstr("name = \"v2\""));
  EXPECT_THAT(agent(1).MustCtl({"reload"}), HasSubstr("nothing to change"));
  EXPECT_THAT(agent(1).MustCtl({"show"}), Not(HasSubstr("unsaved")));
  ASSERT_EQ(agent(1).Stop(), 0);
  agent(1).Start();
  EXPECT_THAT(agent(1).MustCtl({"show"}), AllOf(HasSubstr("vPort t1"), HasSubstr("vPort v2")));
}

// As `ip link set v1 name web` does, and in the configuration, too.
TEST_F(ReloadTest, ARenamedVPortKeepsItsInterface) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  host(1)->AddBridge("br0", {});
  const std::string mac = host(1)->Mac("v1");
  const uint64_t received = agent(1).Stat("v1.received");
  {
    SteadyPing ping(host(1), Address(2));
    EXPECT_EQ(agent(1).MustCtl({"vport", "set", "v1", "name=web"}), "rename vPort v1 to web\n");
    ping.ExpectNoLoss();
  }
  EXPECT_FALSE(Has(1, "v1"));
  EXPECT_EQ(host(1)->Mac("web"), mac);
  EXPECT_THAT(host(1)->MustIp("address show web"), HasSubstr(Address(1)));
  EXPECT_GE(agent(1).Stat("web.received"), received) << "its counters go on";
  agent(2).WaitUntil({"vport", "list"},
                     [](const std::string& list) { return absl::StrContains(list, "web"); });
  host(1)->MustIp("link set web master br0");
  EXPECT_THAT(agent(1).MustCtl({"vport", "set", "web", "name=w", "mtu=1400"}),
              AllOf(HasSubstr("rename vPort web to w\n"), HasSubstr("change vPort w, in place")));
  EXPECT_THAT(host(1)->MustIp("link show w"),
              AllOf(HasSubstr("master br0"), HasSubstr("mtu 1400")));
  ASSERT_EQ(agent(1).Stop(), 0);
  agent(1).Launch();
  agent(1).WaitUntil({"show"}, [&mac](const std::string& show) {
    return absl::StrContains(show, absl::StrCat("vPort w: tap, MAC ", mac));
  });
  EXPECT_THAT(agent(1).Log(), Not(HasSubstr("is left from vPort")));
}

TEST_F(ReloadTest, ANameThatIsTakenIsRefused) {
  AddAgent("h1", Spec({{"v1"}, {"v2"}}));
  host(1)->MustIp("link add br0 type bridge");
  EXPECT_THAT(agent(1).Ctl({"vport", "set", "v1", "name=v2"}).err, HasSubstr("v2"));
  EXPECT_THAT(agent(1).Ctl({"vport", "set", "v1", "name=br0"}).err,
              HasSubstr("there is an interface br0 already"));
  EXPECT_THAT(agent(1).MustCtl({"show"}), AllOf(HasSubstr("vPort v1"), Not(HasSubstr("br0"))));
  EXPECT_TRUE(Has(1, "v1"));
  EXPECT_THAT(agent(1).MustCtl({"reload"}), HasSubstr("nothing to change"));
}

TEST_F(ReloadTest, ARenamedVesTakesItsVPortsAlong) {
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  EXPECT_THAT(agent(1).MustCtl({"ves", "set", "red", "name=green"}),
              AllOf(HasSubstr("remove VES red\n"), HasSubstr("add VES green\n"),
                    HasSubstr("change vPort v1: its interface stays")));
  EXPECT_TRUE(Reaches(host(1), Address(2), kPatience, "0.1"));
  EXPECT_THAT(agent(1).MustCtl({"reload"}), HasSubstr("nothing to change")) << "it is saved";
  EXPECT_THAT(agent(1).MustCtl({"ves", "set", "green", "name=red"}), HasSubstr("add VES red\n"));
  EXPECT_TRUE(Reaches(host(1), Address(2), kPatience, "0.1"));
}

TEST_F(ReloadTest, WhatCannotBeSavedIsInEffectAndSaysSo) {
  AddAgent("h1", Spec({{"v1"}}));
  WriteFile(agent(1).directory() + "/eoibd.d", "in the way of the directory\n");
  EXPECT_THAT(agent(1).MustCtl({"vport", "add", "v2", "ves=red"}),
              AllOf(StartsWith("add vPort v2\nunsaved: save "), HasSubstr("Not a directory")));
  EXPECT_THAT(agent(1).MustCtl({"vport", "set", "v1", "mtu=1400", "--temporary"}),
              HasSubstr("unsaved: temporary\n"));
  EXPECT_THAT(agent(1).MustCtl({"show"}),
              AllOf(HasSubstr("unsaved: vport add v2 ves=red (save "),
                    HasSubstr("unsaved: vport set v1 mtu=1400 (temporary)\n")));
  EXPECT_EQ(agent(1).MustCtl({"reload"}), "nothing to change\n") << "both stay in effect";
  EXPECT_TRUE(Has(1, "v2"));
  std::filesystem::remove(agent(1).directory() + "/eoibd.d");
  EXPECT_THAT(agent(1).MustCtl({"config", "save"}),
              AllOf(HasSubstr("live.toml\n"), HasSubstr("+mtu = 1400\n")));
  EXPECT_THAT(agent(1).MustCtl({"show"}), Not(HasSubstr("unsaved")));
}

TEST_F(ReloadTest, CommandsRefuseMistakesAndChangeNothing) {
  AddAgent("h1", Spec({{"v1"}}));
  const std::string before = agent(1).MustCtl({"config", "show"});
  EXPECT_THAT(agent(1).Ctl({"vport", "add", "v2"}).err, HasSubstr("has no ves"));
  EXPECT_THAT(agent(1).Ctl({"vport", "add", "v2", "ves=green"}).err,
              StartsWith("there is no VES \"green\""));
  EXPECT_THAT(agent(1).Ctl({"vport", "add", "v1", "ves=red"}).err,
              HasSubstr("there is a vport \"v1\" already"));
  EXPECT_THAT(agent(1).Ctl({"vport", "set", "v1", "acces_vlan=1"}).err,
              HasSubstr("did you mean \"access_vlan\"?"));
  EXPECT_THAT(agent(1).Ctl({"vport", "del", "v1", "v9"}).err,
              HasSubstr("there is no vport \"v9\""));
  EXPECT_THAT(agent(1).Ctl({"ves", "del", "red"}).err,
              HasSubstr("VES red has the vPorts v1; remove them first (`vport del v1`)"));
  EXPECT_EQ(agent(1).MustCtl({"config", "show"}), before);
  EXPECT_TRUE(Has(1, "v1"));
}

// The agent's own record of its last change: "a change of the configuration took 1.2s; the worker
// paused 9 times, at most 1.1ms".
struct ChangeRecord {
  absl::Duration took;
  std::string line;
};
ChangeRecord LastChange(const Agent& agent) {
  ChangeRecord record;
  for (absl::string_view line : absl::StrSplit(agent.Log(), '\n')) {
    if (absl::StrContains(line, "a change of the configuration took "))
      record.line = std::string(line);
  }
  constexpr absl::string_view kBefore = "took ";
  const size_t at = record.line.find(std::string(kBefore));
  const absl::string_view rest =
      at == std::string::npos ? "" : absl::string_view(record.line).substr(at + kBefore.size());
  EXPECT_TRUE(absl::ParseDuration(rest.substr(0, rest.find(';')), &record.took)) << record.line;
  return record;
}

// Judged by the agent's own record, without the time for which others had the processors: tests run
// beside this one. A stream through the vPort that stays loses nothing.
TEST_F(ReloadTest, ThousandVPortsComeAndGo) {
  constexpr absl::Duration kLimit = absl::Seconds(10);
  // Instrumented agents, and a virtual machine's, need ten times as long for each vPort.
  const size_t count = AreSanitized() || fabric().Slowdown() > 1 ? 100 : 1000;
  AddNumberedAgents(2);
  ExpectPing(host(1), Address(2));
  Traffic traffic(absl::Milliseconds(1));
  Stream* const there = traffic.Add(host(1), Address(1), host(2), Address(2));
  Stream* const back = traffic.Add(host(2), Address(2), host(1), Address(1));
  traffic.Start();
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return there->ForwardsSince(absl::InfinitePast()).has_value(); }));
  std::vector<VPortSpec> vports = {{"v1"}};
  for (size_t i = 1; i <= count; ++i) vports.push_back({absl::StrCat("t", i)});
  Write(1, Spec(vports));
  // Applies the file. Returns how long that took.
  const auto reload = [this] {
    const absl::Duration before = WaitForProcessor(agent(1).pid());
    agent(1).MustCtl({"reload"}, 6 * kPatience);
    const absl::Duration waited = WaitForProcessor(agent(1).pid()) - before;
    const ChangeRecord record = LastChange(agent(1));
    std::cout << record.line << ", of which it waited " << waited << " for a processor\n";
    return record.took - waited;
  };
  const absl::Time start = absl::Now();
  EXPECT_LT(reload(), kLimit);
  EXPECT_TRUE(Has(1, vports.back().name));
  Write(1, Spec({{"v1"}}));
  EXPECT_LT(reload(), kLimit);
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return !Has(1, vports.back().name) && !Has(1, "t1"); }));
  EXPECT_THAT(agent(1).MustCtl({"show"}), AllOf(HasSubstr("vPort v1"), Not(HasSubstr("vPort t"))));
  const absl::Time end = absl::Now();
  ASSERT_TRUE(EventuallyTrue(
      kPatience, [&] { return there->ForwardsSince(end) && back->ForwardsSince(end); }));
  EXPECT_EQ(there->LostSince(start), 0u) << agent(1).MustCtl({"drops"});
  EXPECT_EQ(back->LostSince(start), 0u) << agent(1).MustCtl({"drops"});
}

class SoftReloadTest : public ReloadTest {};

TEST_F(SoftReloadTest, PartitionsOfTheSoftwareSubnetComeAndGo) {
  AgentSpec spec;
  spec.veses = {VesSpec(), {"blue", 0x8002}};
  spec.vports = {{"v1"}, {"b1", "blue"}};
  Agent& agent = LaunchAgent("h1", spec);
  const auto shows = [&agent](absl::string_view text) {
    return EventuallyTrue(kPatience,
                          [&] { return absl::StrContains(agent.Ctl({"show"}).out, text); });
  };
  const std::string partitions = soft_fabric().directory() + "/partitions.toml";
  const std::string first = "[[partition]]\npkey = 0x8001\nfull = [\"ALL\"]\n";
  ASSERT_TRUE(shows("VES blue: P_Key 0x8002 (not in use)")) << agent.Ctl({"show"}).out;
  WriteFile(partitions, absl::StrCat(first, "[[partition]]\npkey = 0x8002\nfull = [\"h1\"]\n"));
  EXPECT_THAT(soft_fabric().Ctl({"config", "diff"}).out,
              HasSubstr("add partition 0x8002: h1 full"));
  soft_fabric().Kill(SIGHUP);
  EXPECT_TRUE(shows("VES blue: P_Key 0x8002 (full member)")) << agent.Ctl({"show"}).out;
  WriteFile(partitions, "[[partition]]\npkey = 1234567\n");
  const RunResult refused = soft_fabric().Ctl({"reload"});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err, HasSubstr("partitions.toml:2"));
  EXPECT_THAT(agent.MustCtl({"show"}), HasSubstr("VES blue: P_Key 0x8002 (full member)"));
  WriteFile(partitions, first);
  EXPECT_TRUE(soft_fabric().Ctl({"reload"}).ok());
  EXPECT_TRUE(shows("VES blue: P_Key 0x8002 (not in use)"));
  ASSERT_TRUE(soft_fabric().Ctl({"partition", "add", "0x8002", "h1"}).ok());
  EXPECT_TRUE(shows("VES blue: P_Key 0x8002 (full member)"));
  EXPECT_THAT(soft_fabric().Ctl({"config", "save"}).out,
              HasSubstr("partitions.d/saved.toml:\nadd partition 0x8002: h1 full\n"));
  EXPECT_EQ(soft_fabric().Ctl({"reload"}).out, "nothing to change\n");
  EXPECT_TRUE(shows("VES blue: P_Key 0x8002 (full member)"));
  EXPECT_TRUE(shows("flood group ff12:e01b:8001:ffff:ffff:ffff:0000:0000: joined"));
}

}  // namespace
}  // namespace eoib::lab
