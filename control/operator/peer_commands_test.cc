// Commands about the other agents of a VES, their vPorts and their MACs. The agents' clock moves
// only when a test does it.
#include <unistd.h>

#include "absl/strings/str_replace.h"
#include "control/agent_test_fixture.h"

namespace eoib {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// The name of this machine, which all agents of a test have.
std::string MachineName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string GidOf(Host* host) {
  const std::string show = host->Command("show");
  const size_t at = show.find("GID ");
  return show.substr(at, show.find(',', at) - at);
}

class PeerCommandsTest : public AgentTestOf<FakeClock> {
 protected:
  // A station behind v1 of `host` speaks; waits until `other` knows what the agent announces of it.
  void Speak(Host* host, MacAddr mac, Host* other) {
    ASSERT_TRUE(PassUntil([&] {
      host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), mac));
      const std::string place =
          host->Qpn() +
          (host->announces() ? absl::StrCat(" (", MachineName(), "/v1, sequence ") : "");
      return absl::StrContains(RowOf(other, mac), place);
    })) << other->Command("fdb/show");
  }
  // Its row in `fdb show`; empty if there is none.
  static std::string RowOf(Host* host, MacAddr mac) {
    for (absl::string_view line : absl::StrSplit(host->Command("fdb/show"), '\n')) {
      if (absl::StrContains(line, mac.ToString())) return std::string(line);
    }
    return "";
  }
  // Whether `command` answers with `text` before long.
  bool Comes(Host* host, const std::string& command, const std::string& text) {
    return PassUntil([&] { return absl::StrContains(host->Command(command), text); });
  }
  // Moves the clock by `seconds`, slowly enough that messages arrive at about the right time.
  void PassSlowly(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock_.Advance(absl::Seconds(1));
      const absl::Time step = watch_.Now() + absl::Milliseconds(3);
      Until([&] { return watch_.Now() >= step; });
    }
  }
  // The events of `fdb monitor`.
  static std::string Events(Host* host) { return host->Command("fdb/monitor", {"blue"}); }
};

TEST_F(PeerCommandsTest, PeersShowsAnAgentAndItsAddress) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  ASSERT_TRUE(Comes(h1, "peers", " LID 0x")) << "once its path is known";
  const std::string peers = h1->Command("peers");
  EXPECT_THAT(peers, ContainsRegex("VES blue: this agent is [0-9a-f]{8}, incarnation 1\n"));
  EXPECT_THAT(peers, ContainsRegex(absl::StrCat(
                         "  [0-9a-f]{8}  ", MachineName(),
                         " +up +incarnation 1, 1 vPorts, 2 MACs, heard .* ago, round trip ")));
  EXPECT_THAT(peers, ContainsRegex(
                         "    id [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\n"));
  EXPECT_THAT(
      peers,
      HasSubstr("    accepts header eoib or xve, unfinished checksums, 32 segments, MTU 4092\n"));
  EXPECT_THAT(peers, ContainsRegex("    group messages: heard .* ago"));
  EXPECT_THAT(peers, ContainsRegex(absl::StrCat("    ", GidOf(h2), " QPN ", h2->Qpn(),
                                                " LID 0x[0-9a-f]+: up, heard .* ago\n")));
  EXPECT_THAT(peers, Not(HasSubstr("data-only")));
  EXPECT_THAT(h1->Command("peers", {"red"}), HasSubstr("no VES \"red\""));
}

TEST_F(PeerCommandsTest, PeersShowsTheRoundTripOfAnAgentThatIsTalkedTo) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h1, kA, h2);
  Speak(h2, kB, h1);
  EXPECT_THAT(h1->Command("peers"), HasSubstr("round trip not measured"));
  EXPECT_TRUE(PassUntil([&] {
    h1->port("v1")->Inject(MakeFrame(kB, kA));
    h2->port("v1")->Inject(MakeFrame(kA, kB));
    return !absl::StrContains(h1->Command("peers"), "round trip not measured");
  }));
  EXPECT_TRUE(Comes(h1, "peers", "it hears ours"));
}

TEST_F(PeerCommandsTest, PeersShowsAnAgentThatDoesNotAnswer) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  KillHost(h2);
  const auto shows = [&](const char* state) {
    return PassUntil([&] {
      h1->port("v1")->Inject(MakeFrame(kB, kA));
      return absl::StrContains(h1->Command("peers"), state);
    });
  };
  EXPECT_TRUE(shows(" probing ")) << h1->Command("peers");
  EXPECT_TRUE(shows(": probing, heard "));
  EXPECT_TRUE(shows(" lost ")) << h1->Command("peers");
  EXPECT_TRUE(shows(": lost, heard "));
  EXPECT_THAT(h1->Command("vport", {"list"}), HasSubstr("), lost "));
  EXPECT_THAT(Events(h1), ContainsRegex("agent +.* does not answer; its MACs flood"));
}

TEST_F(PeerCommandsTest, PeersShowsDataOnlyPeersAndWhenTheyWereHeard) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kDataOnly);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  ASSERT_TRUE(Comes(h1, "peers", "data-only up")) << "once its path is known";
  const std::string peer = absl::StrCat(GidOf(h2), " QPN ", h2->Qpn(), " LID 0x");
  EXPECT_THAT(h1->Command("peers"),
              ContainsRegex(
                  absl::StrCat("  data-only up: ", peer, "[0-9a-f]+, . MACs, heard [01]s ago\n")));
  // Its last announcement may still be on the way.
  EXPECT_TRUE(
      PassUntil([&] { return absl::StrContains(h1->Command("peers"), " heard 20s ago\n"); }));
  h1->Command("fdb/flush", {"blue"});
  EXPECT_THAT(h1->Command("peers"),
              ContainsRegex(absl::StrCat(peer, "[0-9a-f]+, 0 MACs, not heard lately\n")));
  EXPECT_THAT(h2->Command("peers"), HasSubstr("; it announces nothing\n"));
}

TEST_F(PeerCommandsTest, VPortShowListsTheVPortsOfAllAgents) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 =
      AddHost("h2",
              "[[ves]]\nname = \"blue\"\npkey = 0x8001\n"
              "[[vport]]\nname = \"v1\"\nves = \"blue\"\ntype = \"test\"\n"
              "[[vport]]\nname = \"trunk0\"\nves = \"blue\"\ntype = \"test\"\nmode = \"trunk\"\n"
              "trunk_vlans = [10, \"20-29\"]\n");
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  Speak(h1, kA, h2);
  const std::string shown = h1->Command("vport", {"list", "blue"});
  EXPECT_THAT(shown, ContainsRegex("^VES blue\n +id +name +MACs +host +VLANs\n"));
  EXPECT_THAT(shown, ContainsRegex("\n +1  v1 +[12]  this host +0\n"))
      << "the interface's MAC counts once it speaks";
  EXPECT_THAT(shown, ContainsRegex(
                         absl::StrCat("\n +1  v1 +2  ", MachineName(), " \\([0-9a-f]{8}\\) +0\n")));
  EXPECT_THAT(shown, ContainsRegex(absl::StrCat("\n +2  trunk0 +[01]  ", MachineName(),
                                                " \\([0-9a-f]{8}\\) +10,20-29\n")));
}

TEST_F(PeerCommandsTest, FdbShowNamesHostVPortAndSequence) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  EXPECT_THAT(RowOf(h1, kB), HasSubstr(absl::StrCat(GidOf(h2), " QPN ", h2->Qpn(), " (",
                                                    MachineName(), "/v1, sequence 1)")));
  EXPECT_THAT(RowOf(h2, kB),
              HasSubstr(absl::StrCat("vPort v1 (", MachineName(), "/v1, sequence 1)")));
  // The station moves to h1.
  Speak(h1, kB, h2);
  EXPECT_THAT(RowOf(h2, kB),
              HasSubstr(absl::StrCat(h1->Qpn(), " (", MachineName(), "/v1, sequence 2)")));
  EXPECT_THAT(RowOf(h1, kB),
              HasSubstr(absl::StrCat("vPort v1 (", MachineName(), "/v1, sequence 2)")));
}

TEST_F(PeerCommandsTest, MonitorAndLogTellOfAgentsAndMoves) {
  testing::internal::CaptureStderr();
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  const std::string h2_place = absl::StrCat(GidOf(h2), " QPN ", h2->Qpn());
  Speak(h1, kB, h2);
  Speak(h2, kB, h1);
  bool stopped = false;
  h2->agent()->Stop([&stopped] { stopped = true; });
  ASSERT_TRUE(Until([&] { return stopped; }));
  ASSERT_TRUE(PassUntil([&] { return absl::StrContains(Events(h1), " left\n"); })) << Events(h1);
  const std::string log = testing::internal::GetCapturedStderr();

  const std::string name = MachineName(), events = Events(h1);
  const std::string agent = absl::StrCat("agent +", name, " \\([0-9a-f]{8}\\) ");
  EXPECT_THAT(events, ContainsRegex(absl::StrCat(agent, "found, at ", h2_place, "\n")));
  EXPECT_THAT(events, ContainsRegex(absl::StrCat(agent, "left\n")));
  EXPECT_THAT(events, ContainsRegex(absl::StrCat("moved      ", kB.ToString(),
                                                 " in VLAN 0 from .* to vPort v1\n")));
  EXPECT_THAT(log, ContainsRegex(absl::StrCat("VES blue: ", agent, "found, at ", h2_place, "\n")));
  EXPECT_THAT(log, ContainsRegex(absl::StrCat("VES blue: ", agent, "left\n")));
  EXPECT_THAT(log, HasSubstr(absl::StrCat("VES blue: ", kB.ToString(), " in VLAN 0 moved from ",
                                          h2_place, " (", name, ") to vPort v1\n")));
  EXPECT_THAT(log, HasSubstr(absl::StrCat(kB.ToString(), " in VLAN 0 moved from vPort v1 to ",
                                          h2_place, " (", name, ")\n")));
}

// Not the station moved: its agent has another queue pair.
TEST_F(PeerCommandsTest, MoveBetweenQueuePairsOfOnePortIsNotLogged) {
  testing::internal::CaptureStderr();
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kDataOnly);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  KillHost(h2);
  h2 = AddHost("h2", kDataOnly);
  ASSERT_TRUE(AllJoined());
  Speak(h2, kB, h1);
  EXPECT_THAT(Events(h1), ContainsRegex(absl::StrCat("moved +", kB.ToString(), " in VLAN 0 from ",
                                                     GidOf(h2), " .* to ", GidOf(h2))));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr(" moved ")));
}

TEST_F(PeerCommandsTest, MonitorAndLogTellOfADuplicateMac) {
  testing::internal::CaptureStderr();
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  const auto is_told = [](Host* host) { return absl::StrContains(Events(host), "duplicate "); };
  EXPECT_TRUE(PassUntil([&] {
    for (Host* host : {h1, h2}) host->port("v1")->Inject(MakeFrame(MacAddr::Broadcast(), kC));
    return is_told(h1) && is_told(h2);
  }));
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string text =
      absl::StrCat("duplicate +MAC ", kC.ToString(), " in VLAN 0 is on this host and on ",
                   MachineName(), " \\([0-9a-f]{8}\\): two interfaces have this address");
  EXPECT_THAT(Events(h1), ContainsRegex(text));
  EXPECT_THAT(log, ContainsRegex("warning: VES blue: " + text));
}

// h2's port leaves the group, as on a fabric that does not serve multicast.
TEST_F(PeerCommandsTest, GroupMessagesThatAreNotHeardAreTold) {
  Host* h1 = AddHost("h1", kOneVes);
  Host* h2 = AddHost("h2", kOneVes);
  ASSERT_TRUE(AllJoined());
  Speak(h1, kA, h2);
  Speak(h2, kB, h1);
  EXPECT_THAT(h1->Command("show"), Not(HasSubstr("warning")));
  testing::internal::CaptureStderr();
  LeaveInTheNameOf(h2);
  PassSlowly(200);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(h2->Command("peers"),
              ContainsRegex("    group messages: not heard.*; it hears ours\n"));
  EXPECT_THAT(h1->Command("peers"),
              ContainsRegex("    group messages: heard .* ago; it does not hear ours\n"));
  EXPECT_THAT(
      h2->Command("show"),
      HasSubstr(
          "  warning: the group messages of 1 agents are not heard, and 0 agents do not hear "
          "ours (see peers); if the fabric does not serve multicast, set flood = \"replicate\""));
  EXPECT_THAT(h1->Command("show"),
              HasSubstr("of 0 agents are not heard, and 1 agents do not hear ours"));
  EXPECT_THAT(log, AllOf(HasSubstr(": its group messages are not heard; if the fabric"),
                         HasSubstr(" does not hear our group messages; if the fabric")));
}

}  // namespace
}  // namespace eoib
