#include "tests/lab/switch_test.h"

#include <signal.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/lab/packet_socket.h"

namespace eoib::lab {
namespace {

// Until duplicate address detection is over.
void WaitForAddress(Host* host, const std::string& address) {
  EXPECT_TRUE(EventuallyTrue(kPatience, [&] {
    return absl::StrContains(host->MustIp("-6 address show dev v1 -tentative"), address + "/");
  })) << address;
}

}  // namespace

void SwitchTest::TearDown() {
  if (fabric_ != nullptr) fabric_->Resume();
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (!agent->HasStopped()) agent->Kill(SIGCONT);
  }
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->Alive()) ExpectConservation(agent.get());
  }
  if (fabric_ != nullptr) fabric_->ExpectConservation();
  std::vector<Agent*> ending;
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->Alive()) ending.push_back(agent.get());
  }
  for (Agent* agent : ending) agent->Terminate();
  for (Agent* agent : ending) {
    EXPECT_EQ(agent->Wait(), 0) << "eoibd on " << agent->host()->name() << " did not exit with 0:\n"
                                << agent->Log();
  }
  // The fabric last, so that the agents can leave their groups.
  if (fabric_ != nullptr) fabric_->End();
}

Fabric& SwitchTest::fabric() {
  if (fabric_ == nullptr) StartFabric({PartitionSpec()});
  return *fabric_;
}

void SwitchTest::StartFabric(const std::vector<PartitionSpec>& partitions) {
  if (fabric_ != nullptr) Die("the fabric was already started");
  fabric_ = MakeFabric(&lab_, partitions);
}

SoftFabric& SwitchTest::soft_fabric() {
  auto* soft = dynamic_cast<SoftFabric*>(&fabric());
  if (soft == nullptr) Die("this test needs the software fabric");
  return *soft;
}

Agent& SwitchTest::LaunchAgent(const std::string& host, const AgentSpec& spec,
                               const HostOptions& options) {
  agents_.push_back(std::make_unique<Agent>(&lab_, &fabric(), lab_.AddHost(host, options), spec));
  agents_.back()->Launch();
  return *agents_.back();
}

Agent& SwitchTest::AddAgent(const std::string& host, const AgentSpec& spec,
                            const HostOptions& options) {
  Agent& agent = LaunchAgent(host, spec, options);
  agent.WaitUntilReady();
  return agent;
}

std::vector<Agent*> SwitchTest::AddNumberedAgents(int count, const AgentSpec& spec,
                                                  const HostOptions& options) {
  std::vector<Agent*> added;
  for (int i = 1; i <= count; ++i)
    added.push_back(&LaunchAgent(absl::StrCat("h", i), spec, options));
  for (int i = 1; i <= count; ++i) {
    Agent* agent = added[i - 1];
    agent->WaitUntilReady();
    agent->host()->AddAddress("v1", Address(i) + "/24");
    if (options.ipv6) agent->host()->AddAddress("v1", Address6(i) + "/64");
  }
  for (int i = 1; i <= count && options.ipv6; ++i)
    WaitForAddress(added[i - 1]->host(), Address6(i));
  return added;
}

void WaitUntilAllReceive(const HostInterface& from, const std::vector<HostInterface>& places) {
  PacketSocket sender(from.host, from.interface);
  std::vector<std::unique_ptr<PacketSocket>> receivers;
  for (const HostInterface& at : places) {
    if (at.host != from.host)
      receivers.push_back(std::make_unique<PacketSocket>(at.host, at.interface));
  }
  // A new marker for each attempt: frames of one agent arrive in order, so no earlier one is under
  // way after the last was received.
  uint32_t marker = 0x68656172;
  const auto received = [&] {
    sender.Send(TestFrame(MacAddr::Broadcast(), Mac(from.host->Mac(from.interface)), ++marker));
    return std::all_of(receivers.begin(), receivers.end(), [marker](const auto& receiver) {
      return receiver->WaitFor(Marked(marker), 1, absl::Milliseconds(50));
    });
  };
  if (!EventuallyTrue(kPatience, received)) {
    Die(absl::StrCat("broadcasts from ", from.host->name(), " ", from.interface,
                     " do not reach all interfaces"));
  }
}

void WaitUntilAllReceive(const std::vector<HostInterface>& places) {
  for (const HostInterface& from : places) WaitUntilAllReceive(from, places);
}

void WaitUntilAllReceive(const std::vector<Agent*>& agents) {
  std::vector<HostInterface> places;
  for (const Agent* agent : agents) places.push_back({agent->host()});
  WaitUntilAllReceive(places);
  for (Agent* agent : agents) {
    for (const Agent* other : agents) {
      if (other == agent || !agent->Announces() || !other->Announces()) continue;
      const std::string mac = other->host()->Mac("v1");
      if (EventuallyTrue(kPatience, [&] { return agent->KnowsAnnounced(mac); })) continue;
      Die(absl::StrCat(agent->host()->name(), " does not know what ", other->host()->name(),
                       " announces"));
    }
  }
}

std::string Address(int number) { return absl::StrCat("10.0.0.", number); }
std::string Address6(int number) { return absl::StrCat("fd00::", number); }

Argv PingCommand(const std::string& to, int count, const std::string& interval) {
  return {"ping", "-n", "-q", "-c", absl::StrCat(count), "-i", interval, "-W", "5", to};
}

// "400 packets transmitted, 395 received, ..."
PingCounts ParsePing(const std::string& log) {
  PingCounts counts;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    const std::vector<std::string> words = Words(line);
    if (words.size() < 5 || words[1] != "packets") continue;
    if (absl::SimpleAtoi(words[0], &counts.transmitted) &&
        absl::SimpleAtoi(words[3], &counts.received))
      return counts;
  }
  ADD_FAILURE() << "no summary in the output of ping: " << log;
  return counts;
}

bool Reaches(Host* from, const std::string& to, absl::Duration limit, const std::string& wait) {
  return EventuallyTrue(limit, [&] {
    return from->Run({"ping", "-n", "-c", "1", "-W", wait, to}).ok();
  });
}

// Without a deadline, ping waits for the last answer only twice the longest round trip, and on a
// busy machine counts a late one as lost. With -w it sends until it has `count` answers; we check
// that the first `count` requests are among them.
PingAnswers Ping(Host* from, const std::string& to, int count, const std::string& interval,
                 int size) {
  const RunResult ping = from->Run({"ping", "-n", "-c", absl::StrCat(count), "-i", interval, "-w",
                                    "20", "-s", absl::StrCat(size), to});
  PingAnswers answers;
  answers.log = absl::StrCat("from ", from->name(), " to ", to, ": ", ping.ToString());
  answers.transmitted = ParsePing(ping.out).transmitted;
  for (int number = 1; number <= count; ++number) {
    if (!absl::StrContains(ping.out, absl::StrCat("icmp_seq=", number, " ttl=")))
      answers.lost.push_back(number);
  }
  return answers;
}

void ExpectPing(Host* from, const std::string& to, int count, const std::string& interval,
                int size) {
  const PingAnswers answers = Ping(from, to, count, interval, size);
  EXPECT_TRUE(answers.lost.empty())
      << "ping " << absl::StrJoin(answers.lost, ", ") << " of " << count << " " << answers.log;
}

}  // namespace eoib::lab
