// Agents with several workers.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/sockets.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/windowed_stream.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The second interface, in VLAN 7.
std::string SecondAddress(int number) { return absl::StrCat("10.0.7.", number); }

class WorkersTest : public SwitchTest {
 protected:
  static AgentSpec Spec(int workers) {
    AgentSpec spec;
    spec.top = absl::StrCat("workers = ", workers, "\n");
    spec.vports = {{"v1"}, {"v2", "red", "access_vlan = 7\n"}};
    return spec;
  }
  void AddTwo() {
    AddNumberedAgents(2, Spec(2));
    for (int number : {1, 2}) host(number)->AddAddress("v2", SecondAddress(number) + "/24");
  }
  // The frames that each worker has handled, by its name.
  static std::map<std::string, uint64_t> Frames(Agent* agent) {
    std::map<std::string, uint64_t> frames;
    const std::string show = agent->MustCtl({"show"});
    for (absl::string_view line : absl::StrSplit(show, '\n')) {
      if (!absl::StartsWith(line, "worker ")) continue;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      EXPECT_TRUE(absl::SimpleAtoi(words[words.size() - 3], &frames[words[1]])) << line;
    }
    return frames;
  }
};

TEST_F(WorkersTest, TwoForwardAsOneSwitch) {
  AddTwo();
  EXPECT_THAT(agent(1).MustCtl({"vport", "show", "v1"}), HasSubstr(", eoib-worker-0\n"));
  EXPECT_THAT(agent(1).MustCtl({"vport", "show", "v2"}), HasSubstr(", eoib-worker-1\n"));
  for (const std::string& address : {Address(2), SecondAddress(2)}) {
    ExpectPing(host(1), address, 500, "0.002");
    UniqueFd listener = TcpListener(host(2), address, 5000);
    UniqueFd client = TcpConnect(host(1), address, 5000);
    UniqueFd server = TcpAccept(listener.get());
    ASSERT_TRUE(client.valid() && server.valid());
    EXPECT_EQ(TcpTransfer(client.get(), server.get(), 16 << 20), "");
    EXPECT_EQ(TcpTransfer(server.get(), client.get(), 16 << 20), "");
  }
}

// Each flow has a queue pair of the other agent, and the flows use both.
TEST_F(WorkersTest, FlowsAreSpreadAndStayInOrder) {
  constexpr int kFlows = 32, kEach = 20;
  AddTwo();
  ExpectPing(host(1), Address(2));
  ASSERT_TRUE(
      EventuallyTrue(kPatience, [&] { return agent(1).KnowsAnnounced(host(2)->Mac("v1")); }));
  const std::map<std::string, uint64_t> before = Frames(&agent(2));
  for (int flow = 0; flow < kFlows; ++flow) {
    UniqueFd receiver = UdpSocket(host(2), Address(2), static_cast<uint16_t>(4000 + flow));
    UniqueFd sender = UdpSocket(host(1), Address(1), 0);
    for (int number = 0; number < kEach; ++number) {
      SendUdp(sender.get(), Address(2), static_cast<uint16_t>(4000 + flow),
              Bytes(1, static_cast<uint8_t>(number)));
    }
    for (int number = 0; number < kEach; ++number) {
      EXPECT_EQ(ReceiveUdp(receiver.get()),
                absl::optional<Bytes>(Bytes(1, static_cast<uint8_t>(number))))
          << "flow " << flow;
    }
  }
  const std::map<std::string, uint64_t> after = Frames(&agent(2));
  ASSERT_EQ(after.size(), 2u);
  for (const auto& [worker, frames] : after) EXPECT_GE(frames, before.at(worker) + kEach) << worker;
}

// As with one worker: at half of what it can forward, through both interfaces at once.
TEST_F(WorkersTest, UntouchedVPortsLoseNothingWhileOthersComeAndGo) {
  AddTwo();
  ExpectPing(host(1), Address(2));
  ExpectPing(host(1), SecondAddress(2));
  WindowedStream there(host(1), Address(1), host(2), Address(2), 7000);
  WindowedStream back(host(2), SecondAddress(2), host(1), SecondAddress(1), 7001);
  const uint64_t kMeasured = 20'000 / fabric().Slowdown();
  const double rates[] = {there.Measure(kMeasured), back.Measure(kMeasured)};
  there.SetRate(rates[0] / 2);
  back.SetRate(rates[1] / 2);
  const uint64_t lost[] = {there.lost(), back.lost()};
  for (int round = 0; round < 5; ++round) {
    agent(1).MustCtl({"vport", "add", "v3", "ves=red"});
    agent(1).MustCtl({"vport", "add", "v4", "ves=red", "access_vlan=7"});
    agent(1).MustCtl({"ves", "add", "blue", "pkey=0x8002"});
    agent(1).MustCtl({"vport", "del", "v3", "v4"});
    agent(1).MustCtl({"ves", "del", "blue"});
  }
  there.Drain();
  back.Drain();
  EXPECT_EQ(there.lost() - lost[0], 0u)
      << agent(1).MustCtl({"drops"}) << agent(2).MustCtl({"drops"});
  EXPECT_EQ(back.lost() - lost[1], 0u)
      << agent(1).MustCtl({"drops"}) << agent(2).MustCtl({"drops"});
}

// The TAPs stay: one that a single worker has made serves two, and the other way round.
TEST_F(WorkersTest, NumberChangesWithARestart) {
  AddTwo();
  ExpectPing(host(1), Address(2));
  for (const int workers : {1, 2}) {
    const int former = 3 - workers;
    WriteFile(agent(1).directory() + "/eoibd.toml", ToToml(Spec(workers)));
    const std::string advice =
        absl::StrCat("keep workers = ", former, ": restart the agent for workers = ", workers);
    EXPECT_THAT(agent(1).MustCtl({"config", "diff"}), HasSubstr(advice));
    EXPECT_THAT(agent(1).MustCtl({"reload"}), HasSubstr(advice));
    EXPECT_THAT(agent(1).MustCtl({"config", "diff"}), HasSubstr(advice))
        << "it still waits for the restart";
    ASSERT_EQ(agent(1).Stop(), 0);
    agent(1).Start();
    EXPECT_EQ(Frames(&agent(1)).size(), workers == 1 ? 0u : 2u);
    EXPECT_THAT(agent(1).MustCtl({"config", "diff"}), Not(HasSubstr("workers")));
    for (const std::string& address : {Address(2), SecondAddress(2)})
      EXPECT_TRUE(Reaches(host(1), address));
    ExpectPing(host(2), Address(1), 100, "0.005");
  }
}

}  // namespace
}  // namespace eoib::lab
