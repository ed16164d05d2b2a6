// The operator's view: stable names and MACs, explained mistakes, a control socket that works with
// ovs-appctl.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/gateway.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class OperatorTest : public SwitchTest {};
class SoftOperatorTest : public OperatorTest {};

TEST_F(OperatorTest, OvsAppctlAndEoibctlGiveTheSameAnswers) {
  Agent& agent = AddAgent("h1");
  // Retried, since `show` changes at first: the subscription, the first entry of the FDB.
  for (const char* command : {"show", "list-commands"}) {
    std::string answer, from_ovs, from_ours;
    EXPECT_TRUE(EventuallyTrue(
        kPatience,
        [&] {
          answer = agent.MustCtl({command});
          from_ovs = agent.host()->MustRun({"ovs-appctl", "-t", agent.ctl_path(), command});
          from_ours = agent.host()->MustRun({Binary("eoibctl"), "-t", agent.ctl_path(), command});
          return from_ovs == answer && from_ours == answer;
        }))
        << answer << from_ovs << from_ours;
  }
  for (const char* command : {"fdb/stats", "stats", "drops"}) {
    for (const std::string& program : {std::string("ovs-appctl"), Binary("eoibctl")}) {
      EXPECT_THAT(agent.host()->MustRun({program, "-t", agent.ctl_path(), command}),
                  HasSubstr("VES red"));
    }
  }
  EXPECT_THAT(agent.MustCtl({"list-commands"}),
              AllOf(HasSubstr("fdb/show"), HasSubstr("stats"), HasSubstr("drops")));
}

TEST_F(OperatorTest, UnknownCommandFailsInBothTools) {
  Agent& agent = AddAgent("h1");
  const RunResult ours = agent.host()->Run({Binary("eoibctl"), "-t", agent.ctl_path(), "fbd/show"});
  EXPECT_NE(ours.exit_code, 0);
  EXPECT_THAT(ours.out + ours.err, HasSubstr("fbd/show"));
  EXPECT_NE(agent.host()->Run({"ovs-appctl", "-t", agent.ctl_path(), "fbd/show"}).exit_code, 0);
}

TEST_F(OperatorTest, EoibctlRejectsTimeoutOfZero) {
  const RunResult result = lab().AddHost("h1")->Run({Binary("eoibctl"), "--timeout=0", "show"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--timeout must be above 0"));
}

TEST_F(SoftOperatorTest, DaemonsReloadAtSighupOrIgnoreIt) {
  StartFabric({{.pkey = 0x8001}, {.pkey = 0x8002}});
  Agent& agent = AddAgent("h1");
  GatewayDaemon gateway(&lab(), &fabric(), lab().AddHost("gw"),
                        {{.more = "prefixes = [\"10.0.0.0/24\"]\n"}});
  gateway.Start();
  IpoibHost ipoib(&lab(), &fabric(), lab().AddHost("s1"), {.addresses = {"10.0.0.11/24"}});
  ipoib.Start();
  soft_fabric().Kill(SIGHUP);
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(soft_fabric().Log(), "info: reloaded "); }));
  for (Daemon* daemon : std::initializer_list<Daemon*>{&agent, &gateway, &ipoib}) {
    daemon->Kill(SIGHUP);
    const char* const expected =
        daemon == &ipoib ? "SIGHUP ignored: " : "reload: nothing to change";
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
      return absl::StrContains(daemon->Log(), expected);
    })) << daemon->program();
    EXPECT_TRUE(daemon->Ctl({"show"}).ok()) << daemon->program();
  }
  for (Daemon* daemon : std::initializer_list<Daemon*>{&gateway, &ipoib})
    EXPECT_EQ(daemon->Stop(), 0) << daemon->Log();
}

// A cleaner of temporary files may remove them.
TEST_F(SoftOperatorTest, RemovedSocketsAreMadeAgain) {
  Agent& agent = AddAgent("h1");
  const std::string fabric_control = soft_fabric().directory() + "/fabricd.ctl";
  for (const std::string& path : {agent.ctl_path(), soft_fabric().socket(), fabric_control}) {
    ASSERT_EQ(unlink(path.c_str()), 0) << path;
    EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return access(path.c_str(), F_OK) == 0; })) << path;
  }
  EXPECT_TRUE(agent.Ctl({"show"}).ok());
  AddAgent("h2");  // it registers its port
}

TEST_F(OperatorTest, AMacIsFoundWhereverItIs) {
  AgentSpec spec;
  spec.veses = {VesSpec(), {"blue", 0x8002}};
  spec.vports = {{"v1", "red", "access_vlan = 10\n"}, {"b1", "blue"}};
  Agent& agent = LaunchAgent("h1", spec);
  const std::string mac = "02:00:00:00:00:42";
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    return agent.Ctl({"fdb", "add", mac, "dev", "v1"}).ok();
  }));
  EXPECT_THAT(agent.MustCtl({"fdb", "get", mac}), ContainsRegex("^red +10  " + mac));
  EXPECT_THAT(agent.MustCtl({"fdb", "find", mac}), ContainsRegex("\nred +10  " + mac));
  agent.MustCtl({"fdb", "add", mac, "dev", "b1"});
  EXPECT_THAT(agent.MustCtl({"fdb", "find", mac}),
              AllOf(ContainsRegex("\nred +10  " + mac), ContainsRegex("\nblue +0  " + mac)));
  EXPECT_THAT(agent.Ctl({"fdb", "get", mac}).err,
              HasSubstr("is known in VLAN 10 of VES red, VLAN 0 of VES blue; name one"));
  EXPECT_THAT(agent.Ctl({"fdb", "get", "02:00:00:00:00:43"}).err,
              HasSubstr("no VES knows 02:00:00:00:00:43 in any VLAN: frames for it flood"));
}

TEST_F(OperatorTest, VersionAndNameAreTold) {
  Agent& agent = AddAgent("h1");
  EXPECT_THAT(agent.MustCtl({"version"}),
              ContainsRegex("^eoibd[a-z0-9 ]* [0-9.]+, process [0-9]+, up "));
  EXPECT_THAT(agent.MustCtl({"show"}), ContainsRegex("^eoib [0-9.]+ on .*, up [0-9]"));
}

TEST_F(OperatorTest, HelpExplainsACommand) {
  Agent& agent = AddAgent("h1");
  EXPECT_THAT(
      agent.MustCtl({"help", "fdb", "get"}),
      AllOf(HasSubstr("fdb get VES VLAN MAC | MAC "), HasSubstr("\n    the place of one MAC")));
  EXPECT_THAT(agent.MustCtl({"help", "vport"}),
              AllOf(HasSubstr("vport add NAME"), HasSubstr("vport list")));
  EXPECT_THAT(agent.Ctl({"help", "fdb", "gte"}).err, HasSubstr("did you mean fdb get"));
  for (const char* program : {"eoibd", "eoibctl", "eoib-gateway", "eoib-ipoib", "eoib-fabricd"}) {
    EXPECT_THAT(agent.host()->MustRun({Binary(program), "-h"}),
                AllOf(HasSubstr(absl::StrCat("usage: ", program)), HasSubstr("\n  --")));
    EXPECT_TRUE(agent.host()->Run({Binary(program), "--help"}).ok()) << program;
    EXPECT_THAT(agent.host()->Run({Binary(program), "--version"}).out, HasSubstr("0.")) << program;
  }
}

// Writes to /dev/full fail as writes to a full disk do.
TEST_F(OperatorTest, HelpThatCannotBeWrittenIsAnError) {
  Host* const host = lab().AddHost("h1");
  for (const char* program : {"eoibd", "eoibctl", "eoib-gateway", "eoib-ipoib", "eoib-fabricd"}) {
    for (const std::string flag : {"-h", "--help", "--helpfull", "--version"}) {
      // It has no such flag.
      if (program == std::string("eoibctl") && flag == "--helpfull") continue;
      const RunResult result =
          host->Run({"sh", "-c", absl::StrCat(Binary(program), " ", flag, " >/dev/full")});
      EXPECT_EQ(result.exit_code, 1) << program << flag;
      EXPECT_THAT(result.err, HasSubstr(": write to standard output: ")) << program << flag;
    }
  }
}

TEST_F(OperatorTest, OneMacIsLookedUp) {
  Agent& agent = AddAgent("h1");
  const std::string mac = agent.host()->Mac("v1");
  agent.MustCtl({"fdb", "add", "red", "0", "02:00:00:00:00:42", "v1"});
  EXPECT_THAT(agent.MustCtl({"fdb", "get", "red", "0", "02:00:00:00:00:42"}),
              AllOf(HasSubstr("static"), HasSubstr("vPort v1")));
  EXPECT_THAT(agent.Ctl({"fdb", "get", "red", "0", "02:00:00:00:00:43"}).err,
              HasSubstr("frames for it flood"));
}

TEST_F(OperatorTest, CaptureDoesNotOverwriteAFile) {
  Agent& agent = AddAgent("h1");
  const std::string path = lab().Path("old.erf");
  WriteFile(path, "mine");
  EXPECT_THAT(agent.Ctl({"capture", "start", path}).err,
              HasSubstr("a file or link of that name exists"));
  EXPECT_EQ(agent.host()->MustRun({"cat", path}), "mine");
  const RunResult forced = agent.host()->Run(
      {Binary("eoibctl"), "-t", agent.ctl_path(), "--force", "capture", "start", path});
  EXPECT_TRUE(forced.ok()) << forced.err;
  agent.MustCtl({"capture", "stop"});
}

TEST_F(OperatorTest, LogLevelIsSetWhileRunning) {
  Agent& agent = AddAgent("h1");
  agent.MustCtl({"log", "set", "warning"});
  EXPECT_THAT(agent.MustCtl({"reload"}), HasSubstr("nothing to change"));
  EXPECT_THAT(agent.Log(), testing::Not(HasSubstr("nothing to change")));
  EXPECT_THAT(agent.Ctl({"log", "set", "loud"}).err, HasSubstr("write info or warning"));
}

TEST_F(OperatorTest, CaptureRequiresAbsolutePath) {
  const RunResult result = AddAgent("h1").Ctl({"capture/start", "here.erf"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("here.erf"), HasSubstr("whole path")));
}

TEST_F(OperatorTest, ShowListsHcaVesesAndVPorts) {
  AgentSpec spec;
  spec.vports = {
      {"v1"}, {"v2", "red", "mode = \"access\"\naccess_vlan = 10\nmac = \"02:00:00:00:00:77\"\n"}};
  Agent& agent = AddAgent("h1", spec);
  EXPECT_THAT(agent.MustCtl({"show"}),
              AllOf(HasSubstr("HCA"), HasSubstr("LID"), HasSubstr("red"), HasSubstr("0x8001"),
                    HasSubstr("v1"), HasSubstr("v2"), HasSubstr("02:00:00:00:00:77")));
}

TEST_F(OperatorTest, ShowFollowsTheInterfaceOfAVPort) {
  Agent& agent = AddAgent("h1");
  Host* const host = agent.host();
  EXPECT_THAT(
      agent.MustCtl({"show"}),
      ContainsRegex(
          "  vPort v1: tap, MAC [0-9a-f:]+, access VLAN 0, up, link up, MTU [0-9]+, 0 peers\n"));
  host->MustIp("link set v1 down");
  // Before Linux 6.2 only an interface that is down can be renamed.
  host->MustIp("link set v1 name x1");
  EXPECT_THAT(agent.MustCtl({"vport", "show", "v1"}),
              HasSubstr("access VLAN 0, interface x1, down, link down, MTU "));
  host->MustIp("link set x1 mtu 1300 up");
  EXPECT_THAT(agent.MustCtl({"vport", "show"}), HasSubstr("VES red, vPort v1: tap, "));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(agent.MustCtl({"vport", "show"}),
                             ", interface x1, up, link up, MTU 1300, ");
  }));
  host->MustIp("link set x1 mtu 9000");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(agent.MustCtl({"vport", "show"}),
                             ", MTU 9000 (set by another program; packets above ");
  }));
  agent.MustCtl({"vport", "set", "v1", "mode=trunk"});
  agent.MustCtl({"ves", "set", "red", "vlans=[10, 20]"});
  EXPECT_THAT(agent.MustCtl({"vport", "show", "v1"}),
              HasSubstr(", trunk VLANs 10,20, no untagged frames, "));
  EXPECT_THAT(agent.MustCtl({"vport", "show", "v1", "-s"}),
              AllOf(HasSubstr("  received "), HasSubstr("  transmitted_bytes ")));
  EXPECT_THAT(agent.Ctl({"vport", "show", "v2"}).err, HasSubstr("this host has no vPort \"v2\""));
}

TEST_F(OperatorTest, ListsOfVesesGroupsAndNeighbors) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  const auto knows_other = [&] {
    return absl::StrContains(hosts[0]->MustCtl({"neigh"}), ": up, host ");
  };
  EXPECT_TRUE(EventuallyTrue(kPatience, knows_other));
  EXPECT_THAT(hosts[0]->MustCtl({"ves", "list"}),
              ContainsRegex("red +0x8001 +0x[0-9a-f]+ +[0-9]+ +1 +1 +[0-9]+  joined\n"));
  EXPECT_THAT(hosts[0]->MustCtl({"ves", "show", "red"}), HasSubstr("VES red: P_Key 0x8001"));
  EXPECT_THAT(
      hosts[0]->MustCtl({"groups"}),
      ContainsRegex("VES red\n  flood group ff12:[0-9a-f:]+: joined, MLID 0xc[0-9a-f]+, Q_Key "));
  const std::string gid = hosts[1]->Shown(", GID "), lid = hosts[1]->Lid();
  const std::string path = absl::StrCat("  GID ", gid, ": up, host [^,]+, LID ", lid,
                                        ", SL 0, rate [0-9.]+ Gb/s, MTU [0-9]+, asked .* ago\n");
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return absl::StrContains(hosts[0]->MustCtl({"neigh"}), "rate "); }));
  EXPECT_THAT(hosts[0]->MustCtl({"neigh"}), ContainsRegex(path));
}

TEST_F(OperatorTest, FdbCommandsTakeTheWordsOfBridge) {
  Agent& agent = AddAgent("h1");
  const std::string mac = "02:00:00:00:00:42";
  agent.MustCtl({"fdb", "add", mac, "dev", "v1"});
  EXPECT_THAT(
      agent.MustCtl({"fdb", "show"}),
      ContainsRegex(absl::StrCat("red +0  ", mac, "  static +-  vPort v1 \\([^/]+/v1\\)\n")));
  EXPECT_THAT(agent.MustCtl({"fdb", "get", mac}), HasSubstr("static"));
  EXPECT_THAT(agent.MustCtl({"fdb", "get", mac, "vlan", "0", "ves", "red"}), HasSubstr("static"));
  EXPECT_THAT(agent.Ctl({"fdb", "add", mac}).err, HasSubstr("MAC dev VPORT"));
  EXPECT_THAT(agent.Ctl({"fdb", "add", mac, "dev", "v2"}).err,
              HasSubstr("this host has no vPort \"v2\""));
  EXPECT_THAT(agent.Ctl({"fdb", "add", mac, "via", "v1"}).err,
              HasSubstr("\"via\" is no word of this command"));
  EXPECT_THAT(agent.Ctl({"fdb", "get", mac, "dev"}).err, HasSubstr("\"dev\" needs a value"));
  agent.MustCtl({"fdb", "del", mac, "dev", "v1"});
  EXPECT_THAT(agent.Ctl({"fdb", "get", mac}).err, HasSubstr("frames for it flood"));
}

TEST_F(OperatorTest, TheLogTellsOfTheGroupTheCarrierAndTheEnd) {
  Agent& agent = AddAgent("h1");
  EXPECT_THAT(agent.Log(),
              ContainsRegex("VES red: flood group ff12:[0-9a-f:]+: joined, .*; carrier up: v1\n"));
  EXPECT_EQ(agent.Stop(), 0);
  EXPECT_THAT(agent.Log(), AllOf(ContainsRegex(absl::StrCat("stopping: signal TERM of process ",
                                                            getpid(), " \\([^)]+\\)\n")),
                                 HasSubstr(": left; carrier down: v1\n")));
  agent.Start();
  EXPECT_THAT(agent.MustCtl({"exit"}), HasSubstr("stopping"));
  EXPECT_EQ(agent.Wait(), 0);
  EXPECT_THAT(agent.Log(),
              ContainsRegex("stopping: the command exit of [^ ]+ \\(process [0-9]+\\)\n"));
  agent.Start();
}

TEST_F(OperatorTest, OtherAgentsTheirVPortsAndMacsAreShown) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  const std::string place =
      absl::StrCat("GID ", hosts[1]->Shown(", GID "), " QPN ", hosts[1]->Shown("QPN "));
  const std::string mac = hosts[1]->host()->Mac("v1");
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return hosts[0]->Knows(mac, "/v1, sequence "); }))
      << hosts[0]->MustCtl({"fdb", "show"});
  EXPECT_TRUE(hosts[0]->Knows(mac, place + " ("));
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return !absl::StrContains(hosts[0]->MustCtl({"peers"}), "not measured"); }))
      << "the ping goes both ways, so h2 is probed: " << hosts[0]->MustCtl({"peers"});
  EXPECT_THAT(
      hosts[0]->MustCtl({"peers"}),
      AllOf(ContainsRegex(" up +incarnation 1, 1 vPorts, 1 MACs, heard .* round trip [0-9.]+.?s\n"),
            HasSubstr(place + " LID 0x"), HasSubstr("group messages: ")));
  EXPECT_THAT(hosts[0]->MustCtl({"vport", "list"}),
              ContainsRegex("1  v1 +1  this host +0\n +1  v1 +1  [^ ]+ \\([0-9a-f]+\\) +0\n"));
  const std::string before = hosts[0]->Log();
  ASSERT_EQ(hosts[1]->Stop(), 0);
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(hosts[0]->MustCtl({"fdb/monitor", "red"}), ") left\n");
  }));
  EXPECT_THAT(before, ContainsRegex("VES red: agent [^ ]+ \\([0-9a-f]+\\) found, at " + place));
  EXPECT_TRUE(
      EventuallyTrue(kPatience, [&] { return absl::StrContains(hosts[0]->Log(), ") left\n"); }));
  hosts[1]->Start();
}

TEST_F(OperatorTest, MacIsConfiguredOrGeneratedOnceAndKept) {
  AgentSpec spec;
  spec.vports = {{"v1"}, {"v2"}, {"v3", "red", "mac = \"02:00:00:00:00:77\"\n"}};
  Agent& agent = AddAgent("h1", spec);
  const std::string first = agent.host()->Mac("v1"), second = agent.host()->Mac("v2");
  EXPECT_EQ(agent.host()->Mac("v3"), "02:00:00:00:00:77");
  EXPECT_NE(first, second);
  EXPECT_EQ(Mac(first).bytes()[0] & 3, 2)
      << first << " must be a locally administered unicast address";

  ASSERT_EQ(agent.Stop(), 0) << agent.Log();
  for (const char* name : {"v1", "v2", "v3"})
    agent.host()->MustIp(absl::StrCat("link delete ", name));
  agent.Start();
  EXPECT_EQ(agent.host()->Mac("v1"), first);
  EXPECT_EQ(agent.host()->Mac("v2"), second);
  EXPECT_EQ(agent.host()->Mac("v3"), "02:00:00:00:00:77");
}

// A host's disk is cloned after the agent has run once, as a golden image is.
class ClonedDiskTest : public OperatorTest {
 protected:
  // Starts the agent of h1, and one of h2, with a copy of the state of h1.
  void Clone(const std::string& machine_id, const std::string& machine_id_of_clone) {
    const std::string original = lab().Path("h1"), clone = lab().Path("h2");
    MustRunOnMachine({"mkdir", original, clone});
    WriteFile(original + "/machine-id", machine_id + "\n");
    WriteFile(clone + "/machine-id", machine_id_of_clone + "\n");
    AddAgent("h1");
    ASSERT_EQ(agent(1).Stop(), 0);
    MustRunOnMachine({"cp", "-a", original + "/state", clone + "/state"});
    agent(1).Start();
    AddAgent("h2");
    for (int number : {1, 2}) host(number)->AddAddress("v1", Address(number) + "/24");
  }
  std::string Id(int number) {
    const nlohmann::json identity =
        nlohmann::json::parse(ReadFile(agent(number).directory() + "/state/agent.json"));
    return identity["id"].get<std::string>();
  }
};

TEST_F(ClonedDiskTest, BecomesAnotherHostByItsMachineId) {
  Clone("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
  EXPECT_NE(Id(1), Id(2));
  EXPECT_NE(host(1)->Mac("v1"), host(2)->Mac("v1"));
  EXPECT_THAT(
      agent(2).Log(),
      AllOf(HasSubstr("agent.json: it was made on a machine with another machine-id; making"),
            HasSubstr("to keep that one, set mac = \"" + host(1)->Mac("v1") + "\"")));
  EXPECT_TRUE(Reaches(host(1), Address(2)));
  EXPECT_TRUE(Reaches(host(2), Address(1)));
  // It remains the other host after a restart.
  const std::string id = Id(2), mac = host(2)->Mac("v1");
  ASSERT_EQ(agent(2).Stop(), 0);
  host(2)->MustIp("link delete v1");
  agent(2).Start();
  EXPECT_EQ(Id(2), id);
  EXPECT_EQ(host(2)->Mac("v1"), mac);
}

// The operator forgot the machine-id, too. Then nothing tells which of two interfaces with one MAC
// is the right one.
TEST_F(ClonedDiskTest, WithTheSameMachineIdIsReported) {
  Clone("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(host(1)->Mac("v1"), host(2)->Mac("v1"));
  const auto logs = [this] { return agent(1).Log() + agent(2).Log(); };
  // The agent writes the new id first, and then its log.
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(logs(), "from now on, and keeps its MACs; ");
  })) << logs();
  EXPECT_NE(Id(1), Id(2));
  EXPECT_THAT(logs(), HasSubstr("delete agent.json and vports.json there"));
}

TEST_F(OperatorTest, StaticMacIsNotLearnedElsewhere) {
  AgentSpec spec;
  spec.vports = {{"v1", "red", "static_macs = [\"02:aa:00:00:00:05\"]\n"}, {"v2"}};
  Agent& first = AddAgent("h1", spec);
  Agent& second = AddAgent("h2");
  const MacAddr owner = Mac("02:aa:00:00:00:05"), caller = Mac("02:aa:00:00:00:06");
  EXPECT_TRUE(first.Knows(owner.ToString(), "vPort v1"));
  WaitUntilAllReceive({{first.host()}, {second.host()}});
  PacketSocket one(first.host(), "v1"), two(second.host(), "v1");
  two.Send(TestFrame(MacAddr::Broadcast(), owner, 1));  // a forged source
  ASSERT_TRUE(one.WaitFor(Marked(1)));
  EXPECT_TRUE(first.Knows(owner.ToString(), "vPort v1"));
  // Frames to it arrive at the static port, not at the forger's.
  PacketSocket beside(first.host(), "v2");
  beside.Send(TestFrame(owner, caller, 2));
  beside.Send(TestFrame(MacAddr::Broadcast(), caller, 3));
  ASSERT_TRUE(one.WaitFor(Marked(3)));
  ASSERT_TRUE(two.WaitFor(Marked(3)));
  EXPECT_EQ(one.Count(Marked(2)), 1u);
  EXPECT_EQ(two.Count(Marked(2)), 0u);
}

TEST_F(OperatorTest, ConfigurationErrorIsReportedWithItsLine) {
  struct {
    const char* description;
    const char* line;  // added to the vPort's table, which starts on line 5
    const char* said;
  } rows[] = {
      {"an unknown key", "acess_vlan = 10\n", "access_vlan"},
      {"a VLAN that there is not", "access_vlan = 4095\n", "4094"},
      {"a MAC that is none", "mac = \"02:00\"\n", "mac"},
      {"a group MAC", "mac = \"01:00:00:00:00:01\"\n", "mac"},
      {"a mode that there is not", "mode = \"hybrid\"\n", "trunk"},
      {"no TOML", "mode = \n", ":8: "},
  };
  Host* host = lab().AddHost("h1");
  for (const auto& row : rows) {
    SCOPED_TRACE(row.description);
    AgentSpec spec;
    spec.vports[0].more = row.line;
    const std::string path = lab().Path("eoibd.toml");
    WriteFile(path, ToToml(spec));
    const RunResult result =
        host->Run({Binary("eoibd"), "--hca=soft:h1", "--config=" + path, "--check_config"});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, AllOf(HasSubstr("eoibd.toml:"), HasSubstr(row.said)));
  }
}

TEST_F(OperatorTest, ACheckOfTheConfigurationSaysThatItIsRight) {
  Host* host = lab().AddHost("h1");
  const std::string path = lab().Path("eoibd.toml");
  WriteFile(path, ToToml({}));
  EXPECT_EQ(host->MustRun({Binary("eoibd"), "--config=" + path, "--check_config"}),
            path + ": no mistakes; 1 VESes, 1 vPorts\n");
  EXPECT_THAT(host->Run({Binary("eoibd"), "--config=" + lab().directory(), "--check_config"}).err,
              HasSubstr("it is a directory; name a file"));
}

TEST_F(OperatorTest, AgentWithoutFabricReportsMissingSocket) {
  Host* host = lab().AddHost("h1");
  const std::string config = lab().Path("eoibd.toml");
  WriteFile(config, ToToml({}));
  const RunResult result = host->Run(
      {Binary("eoibd"), "--hca=soft:h1", "--fabric=" + lab().Path("missing.sock"),
       "--config=" + config, "--rundir=" + lab().directory(), "--statedir=" + lab().directory()});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("missing.sock"));
}

// eoibd-verbs is the same agent without the software HCA.
TEST_F(OperatorTest, EoibdVerbsReportsMissingDevice) {
  Host* host = lab().AddHost("h1");
  const std::string config = lab().Path("eoibd.toml");
  WriteFile(config, ToToml({}));
  const Argv common = {"--config=" + config, "--rundir=" + lab().directory(),
                       "--statedir=" + lab().directory()};
  const auto run = [&](const std::string& hca) {
    Argv argv = {Binary("eoibd-verbs"), "--hca=" + hca};
    argv.insert(argv.end(), common.begin(), common.end());
    return host->Run(argv);
  };
  const RunResult verbs = run("verbs:mlx5_99/1");
  EXPECT_EQ(verbs.exit_code, 1);
  // The message depends on whether the kernel has InfiniBand at all.
  EXPECT_THAT(verbs.err, AnyOf(HasSubstr("mlx5_99"), HasSubstr("InfiniBand devices")));
  const RunResult soft = run("soft:h1");
  EXPECT_EQ(soft.exit_code, 1);
  EXPECT_THAT(soft.err, HasSubstr("verbs"));  // the schemes that it knows
  EXPECT_THAT(host->MustRun({"nm", "-C", Binary("eoibd-verbs")}), Not(HasSubstr("softhca")));
}

// eoibd-verbs on another verbs library: libeoib-verbs.so under the names of libibverbs. Its queue
// pairs work. There is no MAD device, so it has no SA; it reports that and continues.
TEST_F(SoftOperatorTest, EoibdVerbsRunsOnPreloadedVerbsLibrary) {
  Host* host = lab().AddHost("h1");
  const std::string config = lab().Path("eoibd.toml"), rundir = lab().Path("run");
  WriteFile(config, ToToml({}));
  // Only matters with the address sanitizer: the preloaded library comes before the sanitizer's.
  const char* asan = std::getenv("ASAN_OPTIONS");
  const std::string asan_options =
      absl::StrCat("ASAN_OPTIONS=", asan == nullptr ? "" : asan, ":verify_asan_link_order=0");
  const auto agent = host->Start(
      {"env", asan_options, "LD_PRELOAD=" + Binary("../lib/libeoib-verbs.so"),
       "EOIB_FABRIC=" + soft_fabric().socket(), "EOIB_PORT=h1", Binary("eoibd-verbs"),
       "--hca=verbs:eoib0/1", "--config=" + config, "--rundir=" + rundir, "--statedir=" + rundir});
  const auto show = [&] {
    return host->Run({Binary("eoibctl"), "-t", rundir + "/eoibd.ctl", "show"}).out;
  };
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(show(), "not joined: "); }))
      << show() << agent->Log();
  EXPECT_THAT(show(), AllOf(HasSubstr("HCA eoib0/1: active"),
                            HasSubstr("P_Key 0x8001 (full member)"), HasSubstr("vPort v1: tap")));
  EXPECT_TRUE(host->HasInterface("v1"));
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return absl::StrContains(show(), "MAD device"); }))
      << show();
  agent->Kill(SIGTERM);
  EXPECT_EQ(agent->Wait(), absl::optional<int>(0)) << agent->Log();
  EXPECT_THAT(host->MustRun({"nm", "-C", Binary("eoibd")}), HasSubstr("softhca"))
      << "control: nm shows the symbols where they exist";
}

// ibv_devinfo on the agent's port shows the same as the agent, and does not disturb the traffic.
TEST_F(SoftOperatorTest, IbvDevinfoShowsPortOfRunningAgent) {
  auto hosts = AddNumberedAgents(2);
  ExpectPing(hosts[0]->host(), Address(2));
  SteadyPing ping(hosts[0]->host(), Address(2));
  for (Agent* agent : hosts) {
    const RunResult devinfo = agent->host()->Run(
        {"env", "LD_PRELOAD=" EOIB_VERBS_LIBRARY, "EOIB_FABRIC=" + soft_fabric().socket(),
         "EOIB_PORT=" + agent->host()->name(), "ibv_devinfo", "-v"});
    EXPECT_TRUE(devinfo.ok()) << devinfo.ToString();
    uint32_t lid = 0;
    ASSERT_TRUE(absl::SimpleHexAtoi(agent->Lid(), &lid)) << agent->Lid();
    EXPECT_THAT(devinfo.out, ContainsRegex("state:[[:space:]]+PORT_ACTIVE \\(4\\)"));
    EXPECT_THAT(devinfo.out, ContainsRegex(absl::StrCat("port_lid:[[:space:]]+", lid, "\n")));
  }
  ping.ExpectNoLoss();
}

TEST_F(SoftOperatorTest, SecondAgentOnSamePortIsRefused) {
  Agent& agent = AddAgent("h1");
  const std::string config = lab().Path("eoibd.toml"), rundir = lab().Path("second");
  AgentSpec spec;
  spec.vports[0].name = "v9";
  WriteFile(config, ToToml(spec));
  const RunResult result =
      agent.host()->Run({Binary("eoibd"), "--hca=soft:h1", "--fabric=" + soft_fabric().socket(),
                         "--config=" + config, "--rundir=" + rundir, "--statedir=" + rundir});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("h1"));
  EXPECT_TRUE(agent.Alive());
}

}  // namespace
}  // namespace eoib::lab
