// Agents and fabricd that are killed, stopped and restarted; the other agents must not notice.
#include <signal.h>

#include <ctime>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/resources.h"
#include "tests/lab/sockets.h"
#include "tests/lab/steady_ping.h"
#include "tests/lab/switch_test.h"

namespace eoib::lab {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const MacAddr kA = MacAddr::FromUint64(0x02'aa'00'00'00'01);

absl::Duration Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

AgentSpec WithVPorts(int count) {
  AgentSpec spec;
  spec.vports.clear();
  for (int i = 1; i <= count; ++i) spec.vports.push_back({absl::StrCat("v", i)});
  return spec;
}

class RestartTest : public SwitchTest {
 protected:
  // Adds h1 to h3, which all know each other.
  void AddThree() {
    AddNumberedAgents(3);
    for (int from = 1; from <= 3; ++from) {
      for (int to = 1; to <= 3; ++to) {
        if (from != to) ExpectPing(host(from), Address(to), 1);
      }
    }
  }
};

class SoftRestartTest : public RestartTest {};

TEST_F(RestartTest, KilledAgentForwardsAgainWithinTwoSecondsWithoutLossBetweenOthers) {
  AddThree();
  const std::string lid = agent(2).Lid(), mac = host(2)->Mac("v1");
  ASSERT_NE(lid, "");
  SteadyPing others(host(1), Address(3));
  SteadyPing others_back(host(3), Address(1));

  const absl::Duration start = Now();
  agent(2).Kill(SIGKILL);
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !agent(2).Alive(); }));
  agent(2).Launch();
  // No command is needed: the interface kept its address. Ping from h1, whose neighbour entry and
  // FDB are from before the restart.
  EXPECT_TRUE(Reaches(host(1), Address(2), kPatience, "0.1"));
  const absl::Duration gap = Now() - start;
  EXPECT_LT(gap, fabric().Slowdown() == 1 ? absl::Seconds(2) : absl::Seconds(10));
  RecordProperty("milliseconds", static_cast<int>(absl::ToInt64Milliseconds(gap)));

  agent(2).WaitUntilReady();
  EXPECT_EQ(agent(2).Lid(), lid);
  EXPECT_EQ(host(2)->Mac("v1"), mac);
  others.ExpectNoLoss();
  others_back.ExpectNoLoss();
  ExpectPing(host(3), Address(2));
  ExpectPing(host(2), Address(3));
}

TEST_F(SoftRestartTest, TenRestartsLeaveNothingBehind) {
  AddThree();
  const std::string lid = agent(2).Lid();
  const std::vector<Host*> all = {host(1), host(2), host(3), soft_fabric().host()};
  const auto descriptors = [this] { return ResourcesOf(soft_fabric().pid()).descriptors; };
  const std::string leftovers_before = SettledLeftovers(lab().directory(), all);
  const int64_t descriptors_before = descriptors();
  for (int i = 0; i < 10; ++i) {
    const bool killed = i % 2 == 0;
    if (killed) {
      agent(2).Kill(SIGKILL);
    } else {
      EXPECT_EQ(agent(2).Stop(), 0) << agent(2).Log();
    }
    EXPECT_TRUE(host(2)->HasInterface("v1")) << "it stays";
    agent(2).Start();
    EXPECT_TRUE(Reaches(host(1), Address(2), absl::Seconds(2), "0.1")) << "restart " << i;
    EXPECT_EQ(agent(2).Lid(), lid);
  }
  ExpectLeftovers(leftovers_before, lab().directory(), all);
  // Retried, since descriptors of commands and rings disappear a moment later.
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] { return descriptors() <= descriptors_before; }))
      << "eoib-fabricd had " << descriptors_before << ", and has " << descriptors();
}

// A start right after a kill: the killed agent may hold its socket and its interfaces for a moment.
TEST_F(RestartTest, AgentStartedRightAfterKillTakesOver) {
  Agent& agent = AddAgent("h1", WithVPorts(50));
  const std::string mac = agent.host()->Mac("v50");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(kill(agent.pid(), SIGKILL), 0);
    agent.Launch();
    agent.WaitUntilReady();
    EXPECT_EQ(agent.host()->Mac("v50"), mac);
  }
}

TEST_F(RestartTest, ShutdownWithSixHundredInterfacesIsQuick) {
  Agent& agent = LaunchAgent("h1", WithVPorts(600));
  ASSERT_TRUE(EventuallyTrue(5 * kPatience, [&] {
    return absl::StrContains(agent.Ctl({"show"}).out, "vPort v600");
  })) << agent.Log();
  const absl::Duration start = Now();
  agent.Terminate();
  while (agent.Alive()) {
    const RunResult answer = agent.Ctl({"show"});
    if (!answer.ok()) {
      EXPECT_THAT(answer.err, AnyOf(HasSubstr("eoibd is stopping"), HasSubstr("eoibd does not run"),
                                    HasSubstr("closed the connection")));
    }
  }
  EXPECT_EQ(agent.Wait(), 0) << agent.Log();
  EXPECT_LT(Now() - start, absl::Seconds(8));
  EXPECT_TRUE(agent.host()->HasInterface("v1"));
  EXPECT_TRUE(agent.host()->HasInterface("v600"));
}

TEST_F(RestartTest, TcpConnectionSurvivesAgentRestart) {
  AddThree();
  // The guest is behind host 2's bridge, so its interface outlives the agent.
  host(2)->MustIp("address flush dev v1");
  Host* guest = lab().AddHost("guest");
  host(2)->AddVeth("tap1", guest, "eth0", 4070);
  host(2)->AddBridge("br0", {"v1", "tap1"});
  guest->AddAddress("eth0", Address(22) + "/24");
  UniqueFd listener = TcpListener(guest, Address(22), 5000);
  UniqueFd client = TcpConnect(host(1), Address(22), 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  ASSERT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");

  agent(2).Kill(SIGKILL);
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] { return !agent(2).Alive(); }));
  agent(2).Start();
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 1 << 20), "");
  EXPECT_EQ(TcpTransfer(server.get(), client.get(), 1 << 20), "");
}

TEST_F(SoftRestartTest, StoppedFabricdDoesNotAffectKnownPeers) {
  AddThree();
  PacketSocket three(host(3), "v1"), one(host(1), "v1");
  one.Send(TestFrame(MacAddr::Broadcast(), kA, 1));
  ASSERT_TRUE(three.WaitFor(Marked(1)));
  soft_fabric().Kill(SIGSTOP);
  ExpectPing(host(1), Address(2), 100);
  ExpectPing(host(3), Address(1), 100);
  one.Send(TestFrame(MacAddr::Broadcast(), kA, 2));
  EXPECT_TRUE(three.WaitFor(Marked(2))) << "floods must also arrive";
  UniqueFd listener = TcpListener(host(2), Address(2), 5000);
  UniqueFd client = TcpConnect(host(1), Address(2), 5000);
  ASSERT_TRUE(client.valid());
  UniqueFd server = TcpAccept(listener.get());
  EXPECT_EQ(TcpTransfer(client.get(), server.get(), 8 << 20), "");
  soft_fabric().Kill(SIGCONT);
}

TEST_F(SoftRestartTest, AgentsReconnectToRestartedFabricd) {
  AddThree();
  const std::string lid = agent(1).Lid();
  SteadyPing known(host(1), Address(3));
  soft_fabric().Kill(SIGKILL);
  ExpectPing(host(1), Address(2), 20);
  ExpectPing(host(2), Address(3), 20);
  const auto shown = [&] { return agent(1).MustCtl({"show"}); };
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(shown(), "\nsubnet: there is no eoib-fabricd at ");
  }));
  soft_fabric().Start();
  ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
    const std::string ports = soft_fabric().Ctl({"show"}).out;
    return absl::StrContains(ports, "h1") && absl::StrContains(ports, "h2") &&
           absl::StrContains(ports, "h3");
  }));
  // A new agent reaches all others: they have joined their groups again.
  Agent& fourth = AddAgent("h4");
  fourth.host()->AddAddress("v1", Address(4) + "/24");
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(Reaches(fourth.host(), Address(i), kPatience, "0.2")) << "h" << i;
  }
  known.ExpectNoLoss();
  EXPECT_FALSE(absl::StrContains(shown(), "\nsubnet: ")) << shown();
  EXPECT_EQ(agent(1).Lid(), lid) << "the new subnet manager must keep the LIDs";
}

TEST_F(RestartTest, StoppedAgentDoesNotAffectOthers) {
  AddThree();
  PacketSocket one(host(1), "v1"), three(host(3), "v1");
  agent(2).Kill(SIGSTOP);
  SteadyPing others(host(1), Address(3));
  // The stopped agent does not receive the floods: its ring fills, and further datagrams are
  // dropped.
  constexpr uint32_t kFloods = 3000;
  for (uint32_t i = 1; i <= kFloods; ++i) {
    one.Send(TestFrame(MacAddr::Broadcast(), kA, i, 1000));
    // In bursts, to leave room for the pings in the interface's queue.
    if (i % 50 != 0) continue;
    ASSERT_TRUE(three.WaitFor(Marked(i))) << "flood " << i;
    three.Clear();
  }
  others.ExpectNoLoss();
  agent(2).Kill(SIGCONT);
  EXPECT_TRUE(Reaches(host(1), Address(2), kPatience, "0.2"));
}

}  // namespace
}  // namespace eoib::lab
