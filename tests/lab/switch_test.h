// SwitchTest: the fixture for tests of a whole switch: a lab, a fabric, and hosts with agents.
#ifndef EOIB_TESTS_LAB_SWITCH_TEST_H_
#define EOIB_TESTS_LAB_SWITCH_TEST_H_

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/lab/agent.h"
#include "tests/lab/fabric.h"
#include "tests/lab/lab.h"
#include "tests/lab/packet_socket.h"
#include "tests/lab/soft_fabric.h"

namespace eoib::lab {

// After each test, checks that the agents conserve frames and the fabric datagrams. All agents and
// fabricd must be alive, and exit with 0 on SIGTERM (a sanitizer report is a failure): a test that
// kills one must start it again. Stopped ones are continued first.
class SwitchTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(MissingOnThisMachine(), ""); }
  void TearDown() override;

  Lab& lab() { return lab_; }
  // Made on first use, with partition 0x8001 for all ports, unless StartFabric was called before.
  Fabric& fabric();
  // The same, for tests that need a software fabric. Ends the test program on another fabric.
  SoftFabric& soft_fabric();
  void StartFabric(const std::vector<PartitionSpec>& partitions);

  // Adds a host and starts an agent on it, without waiting.
  Agent& LaunchAgent(const std::string& host, const AgentSpec& spec = {},
                     const HostOptions& options = {});
  // Adds a host with an agent, and waits until that is ready.
  Agent& AddAgent(const std::string& host, const AgentSpec& spec = {},
                  const HostOptions& options = {});
  // The same on hosts h1 to hN, with 10.0.0.N/24 (and fd00::N/64 with IPv6) on v1.
  std::vector<Agent*> AddNumberedAgents(int count, const AgentSpec& spec = {},
                                        const HostOptions& options = {});

  const std::vector<std::unique_ptr<Agent>>& agents() const { return agents_; }
  // In the order in which they were added, from 1 on.
  Agent& agent(int number) { return *agents_[static_cast<size_t>(number - 1)]; }
  Host* host(int number) { return agent(number).host(); }

 private:
  Lab lab_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::unique_ptr<Agent>> agents_;
};

// "10.0.0.N".
std::string Address(int number);
std::string Address6(int number);

// Waits until each of these interfaces receives the broadcasts of all others: a join takes effect
// at the senders a moment after an agent is ready, as in a real subnet; until then their floods do
// not reach it. None of these frames is under way on return.
struct HostInterface {
  Host* host;
  std::string interface = "v1";
};
void WaitUntilAllReceive(const std::vector<HostInterface>& places);
// For interface v1 of each. The agents also know each other's announcements on return.
void WaitUntilAllReceive(const std::vector<Agent*>& agents);
// Only for the frames of `from`.
void WaitUntilAllReceive(const HostInterface& from, const std::vector<HostInterface>& places);

// Whether a ping is answered within `limit`. Each request waits `wait` seconds for its answer; the
// last one may go on longer.
bool Reaches(Host* from, const std::string& to, absl::Duration limit = kPatience,
             const std::string& wait = "1");
// Pings every `interval` seconds with `size` bytes until `count` answers have come or 20 s have
// passed.
struct PingAnswers {
  int transmitted = 0;
  std::vector<int> lost;  // the numbers, from 1 to `count`, of the requests without an answer
  std::string log;
};
PingAnswers Ping(Host* from, const std::string& to, int count, const std::string& interval,
                 int size = 56);
// The same, and expects that each of the first `count` requests was answered.
void ExpectPing(Host* from, const std::string& to, int count = 3,
                const std::string& interval = "0.01", int size = 56);
// A command line for a ping in the background. It ends after `count` requests, with exit code 0 if
// one was answered.
Argv PingCommand(const std::string& to, int count, const std::string& interval);
// Parses the summary of a ping; fails the test if there is none.
struct PingCounts {
  int transmitted = 0;
  int received = 0;
  int lost() const { return transmitted - received; }
};
PingCounts ParsePing(const std::string& log);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_SWITCH_TEST_H_
