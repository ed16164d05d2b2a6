// SwitchTest: the fixture of tests of a whole switch: a lab, a subnet, and hosts with agents.
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

// After each test every agent that runs must conserve frames, and the fabric datagrams. All agents and fabricd must be alive,
// and end without complaint (also of a sanitizer) when they are asked to: who kills one starts it again. Who is stopped is
// continued first.
class SwitchTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(MissingOnThisMachine(), ""); }
  void TearDown() override;

  Lab& lab() { return lab_; }
  // Made at its first use, with partition 0x8001 of all ports, unless StartFabric was called before.
  Fabric& fabric();
  // The same, for what only a software fabric can do. Aborts on another.
  SoftFabric& soft_fabric();
  void StartFabric(const std::vector<PartitionSpec>& partitions);

  // A new host with an agent that was started and may not be ready.
  Agent& LaunchAgent(const std::string& host, const AgentSpec& spec = {}, const HostOptions& options = {});
  // A new host with a running agent.
  Agent& AddAgent(const std::string& host, const AgentSpec& spec = {}, const HostOptions& options = {});
  // The same on hosts h1 to hN, with 10.0.0.N/24 (and fd00::N/64 with IPv6) on v1.
  std::vector<Agent*> AddNumberedAgents(int count, const AgentSpec& spec = {}, const HostOptions& options = {});

  const std::vector<std::unique_ptr<Agent>>& agents() const { return agents_; }

 private:
  Lab lab_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::unique_ptr<Agent>> agents_;
};

// "10.0.0.N".
std::string Address(int number);
std::string Address6(int number);

// Sends broadcasts at `from`'s `interface` until `at` hears one at its own. An agent that is ready has joined its group; that
// those before it send to it comes a moment later, as with a switch that is told of a member, and what they flood until then is
// lost.
void WaitUntilHeard(Host* from, Host* at, const std::string& interface = "v1");

// The same for all of one switch: each hears each of the others, and none of the frames sent for that is under way any more.
struct HostInterface {
  Host* host;
  std::string interface = "v1";
};
void WaitUntilAllHear(const std::vector<HostInterface>& places);
// At v1 of each.
void WaitUntilAllHear(const std::vector<Agent*>& agents);
// The same for one that all others are to hear.
void WaitUntilAllHear(const HostInterface& from, const std::vector<HostInterface>& places);

// Pings once every `interval`, with so many bytes, more than `count` times if answers are late.
struct PingAnswers {
  int transmitted = 0;
  std::vector<int> lost;  // the numbers, from 1 to `count`, of the requests without an answer
  std::string log;
};
PingAnswers Ping(Host* from, const std::string& to, int count, const std::string& interval, int size = 56);
// The same, and expects an answer to each of the first `count` requests.
void ExpectPing(Host* from, const std::string& to, int count = 3, const std::string& interval = "0.01", int size = 56);
// The arguments of such a ping, for background runs; it ends by itself, with exit code 0 only if all are answered.
Argv PingCommand(const std::string& to, int count, const std::string& interval);
// What a ping counted by its end; a failed test if `log` does not say so.
struct PingCounts {
  int transmitted = 0;
  int received = 0;
  int lost() const { return transmitted - received; }
};
PingCounts ParsePing(const std::string& log);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_SWITCH_TEST_H_
