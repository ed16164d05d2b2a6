// Failure tolerance: an agent, eoib-fabricd, or both are killed or stopped, in every order and
// under traffic. Known peers keep communicating meanwhile, and everything recovers by itself when
// they are back.
//
// Each scenario prints the outage of each stream after its last step into the test's log.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lab/resources.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/traffic.h"

namespace eoib::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Everything that runs must forward again within this time.
constexpr absl::Duration kBackWithin = absl::Seconds(2);
// Uninvolved hosts must not see a longer gap than this, apart from the time for which the machine
// itself stalled.
constexpr absl::Duration kBystandersGap = absl::Milliseconds(200);

// ---- All orders: each of two parties runs, is stopped, or is dead; its state determines the
// possible actions.

enum class State { kRuns, kStopped, kDead };
enum class Act { kKill, kStop, kContinue, kStart };
enum Party { kAgent, kFabricd, kParties };

struct Step {
  Party party;
  Act act;
};
using Scenario = std::vector<Step>;
using States = std::array<State, kParties>;

std::vector<Act> PossibleIn(State state) {
  switch (state) {
    case State::kRuns:
      return {Act::kKill, Act::kStop};
    case State::kStopped:
      return {Act::kContinue, Act::kKill};
    case State::kDead:
      return {Act::kStart};
  }
  return {};
}

State After(Act act) {
  if (act == Act::kKill) return State::kDead;
  return act == Act::kStop ? State::kStopped : State::kRuns;
}

bool BothRun(const States& states) {
  return states[kAgent] == State::kRuns && states[kFabricd] == State::kRuns;
}

// Adds all scenarios that begin with `steps` and end when both run again for the first time.
void AddScenarios(size_t longest, const States& states, const Scenario& steps,
                  std::vector<Scenario>* scenarios) {
  for (const Party party : {kAgent, kFabricd}) {
    for (const Act act : PossibleIn(states[party])) {
      States next = states;
      next[party] = After(act);
      Scenario longer = steps;
      longer.push_back({party, act});
      if (BothRun(next)) {
        scenarios->push_back(longer);
      } else if (longer.size() < longest) {
        AddScenarios(longest, next, longer, scenarios);
      }
    }
  }
}

std::vector<Scenario> AllScenarios(size_t longest) {
  std::vector<Scenario> scenarios;
  AddScenarios(longest, {State::kRuns, State::kRuns}, {}, &scenarios);
  return scenarios;
}

std::string ToString(const Step& step) {
  static constexpr const char* kActs[] = {"kill", "stop", "continue", "start"};
  return absl::StrCat(kActs[static_cast<int>(step.act)],
                      step.party == kAgent ? " agent" : " fabricd");
}

std::string ToString(const Scenario& scenario) {
  return absl::StrJoin(scenario, ", ", [](std::string* out, const Step& step) {
    absl::StrAppend(out, ToString(step));
  });
}

TEST(ScenarioTest, ListsEveryOrderOfFailures) {
  std::vector<std::string> names;
  for (const Scenario& scenario : AllScenarios(3)) names.push_back(ToString(scenario));
  EXPECT_THAT(names,
              UnorderedElementsAre("kill agent, start agent", "stop agent, continue agent",
                                   "stop agent, kill agent, start agent",
                                   "kill fabricd, start fabricd", "stop fabricd, continue fabricd",
                                   "stop fabricd, kill fabricd, start fabricd"));
  EXPECT_EQ(AllScenarios(4).size(), 6u + 16u) << "scenarios with failures of both parties";
}

// ---- The switch.

// A is killed; B and C observe. A registers last, so that its LID is not the first that a restarted
// fabricd assigns.
class FailureToleranceTest : public SwitchTest {
 protected:
  static constexpr int kB = 1, kC = 2, kA = 3;

  void TearDown() override {
    traffic_.reset();
    SwitchTest::TearDown();
  }

  void StartHosts() { AddNumberedAgents(3); }

  void StartTraffic() {
    bystanders_ = {traffic_->Add(host(kB), Address(kB), host(kC), Address(kC)),
                   traffic_->Add(host(kC), Address(kC), host(kB), Address(kB))};
    const absl::Time start = absl::Now();
    traffic_->Start();
    ExpectAllForward(start);
  }

  void AddStream(const std::string& name, int from, int to, const std::string& address) {
    streams_.push_back({name, traffic_->Add(host(from), Address(from), host(to), address)});
  }

  void Play(const Step& step) {
    const auto play = [act = step.act](auto* party) {
      if (act == Act::kStart) return party->Launch();
      party->Kill(act == Act::kKill ? SIGKILL : act == Act::kStop ? SIGSTOP : SIGCONT);
    };
    if (step.party == kAgent) {
      play(&agent(kA));
    } else {
      play(&soft_fabric());
    }
  }

  // The time in ms after `since` at which the stream forwards again; fails the test after 2 s.
  int64_t ExpectForwards(const std::string& name, const Stream& stream, absl::Time since) {
    absl::optional<absl::Time> forwards;
    EventuallyTrue(kBackWithin + absl::Seconds(1),
                   [&] { return (forwards = stream.ForwardsSince(since)).has_value(); });
    EXPECT_TRUE(forwards.has_value()) << name << " is not forwarded again";
    const absl::Duration outage = forwards.value_or(absl::Now()) - since;
    EXPECT_LE(outage, kBackWithin) << name;
    return absl::ToInt64Milliseconds(outage);
  }

  // Returns the outage of each stream, as text.
  std::string ExpectAllForward(absl::Time since) {
    std::string outages;
    for (const auto& [name, stream] : streams_) {
      absl::StrAppend(&outages, outages.empty() ? "" : ", ", name, " ",
                      ExpectForwards(name, *stream, since), " ms");
    }
    for (const Stream* bystander : bystanders_) ExpectForwards("a bystander", *bystander, since);
    return outages;
  }

  absl::Duration BystandersGap(absl::Time since) const {
    return std::max(bystanders_[0]->LongestGap(since), bystanders_[1]->LongestGap(since));
  }

  size_t BystandersLoss(absl::Time since) const {
    return bystanders_[0]->LostSince(since) + bystanders_[1]->LostSince(since);
  }

  // After each step, lets some traffic pass. An agent that has forwarded before does so whenever it
  // runs, in any state of fabricd; a newly started one needs fabricd first.
  void Play(const Scenario& scenario) {
    const absl::Time start = absl::Now();
    States states = {State::kRuns, State::kRuns};
    bool known = true;
    absl::Time stepped;
    for (const Step& step : scenario) {
      SCOPED_TRACE(absl::StrCat("after \"", ToString(step), "\""));
      stepped = absl::Now();
      Play(step);
      states[step.party] = After(step.act);
      if (step.party == kAgent && step.act == Act::kStart) known = false;
      if (states[kAgent] == State::kRuns && known) {
        for (const auto& [name, stream] : streams_) {
          if (!absl::StartsWith(name, "floods")) ExpectForwards(name, *stream, stepped);
        }
      }
      for (const Stream* bystander : bystanders_)
        ExpectForwards("a bystander", *bystander, stepped);
    }
    const std::string outages = ExpectAllForward(stepped);
    const absl::Duration gap = BystandersGap(start);
    EXPECT_LE(gap, kBystandersGap + traffic_->StallAllowance(start))
        << "bystanders must not depend on A or fabricd";
    EXPECT_EQ(BystandersLoss(start), 0u);
    std::printf("%-75s %s; bystanders' longest gap %d ms\n", ToString(scenario).c_str(),
                outages.c_str(), static_cast<int>(absl::ToInt64Milliseconds(gap)));
  }

  std::unique_ptr<Traffic> traffic_ = std::make_unique<Traffic>();
  std::vector<std::pair<std::string, Stream*>> streams_;
  std::array<Stream*, 2> bystanders_;
};

TEST_F(FailureToleranceTest, EveryOrderOfKillsAndStopsRecovers) {
  StartHosts();
  AddStream("A->B", kA, kB, Address(kB));
  AddStream("B->A", kB, kA, Address(kA));
  AddStream("floods B->A", kB, kA, "10.0.0.255");
  StartTraffic();
  const std::string b = agent(kB).Lid(), c = agent(kC).Lid();
  for (const Scenario& scenario : AllScenarios(5)) {
    SCOPED_TRACE(ToString(scenario));
    Play(scenario);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(agent(kB).Lid(), b) << "the restarted subnet manager must keep the LID";
  EXPECT_EQ(agent(kC).Lid(), c);
}

// A silent receiver, and a sender with a permanent neighbour entry: the peers can learn the new
// queue pair only from the agent's own announcement.
TEST_F(FailureToleranceTest, SilentReceiverIsFoundAgainAfterEveryOrder) {
  StartHosts();
  host(kB)->MustIp(absl::StrCat("neighbor replace ", Address(kA), " lladdr ", host(kA)->Mac("v1"),
                                " dev v1 nud permanent"));
  AddStream("B->A", kB, kA, Address(kA));
  StartTraffic();
  for (const Scenario& scenario : AllScenarios(4)) {
    SCOPED_TRACE(ToString(scenario));
    Play(scenario);
    ASSERT_FALSE(HasFailure());
  }
}

// Longer than all timeouts: an idle ring is closed after 10 s, and a query to the SA given up after
// 8 s.
constexpr absl::Duration kLongStop = absl::Seconds(12);

// While A is stopped under traffic, C and D, which know each other, are silent.
TEST_F(FailureToleranceTest, LongStopRecoversAndSilentPeersStayReachable) {
  AddNumberedAgents(4);
  constexpr int kD = 4;
  const auto add_neighbor = [this](int from, int to) {
    host(from)->MustIp(absl::StrCat("neighbor replace ", Address(to), " lladdr ",
                                    host(to)->Mac("v1"), " dev v1 nud permanent"));
  };
  for (const auto& [one, other] : {std::pair(kC, kD), std::pair(kA, kD)}) {
    add_neighbor(one, other);
    add_neighbor(other, one);
    ExpectPing(host(one), Address(other));
  }
  AddStream("A->B", kA, kB, Address(kB));
  AddStream("B->A", kB, kA, Address(kA));
  StartTraffic();
  const auto wait_long = [this](absl::Time since) {
    const absl::Time until = since + kLongStop;
    for (const Stream* bystander : bystanders_) {
      ASSERT_TRUE(EventuallyTrue(until - absl::Now() + kPatience,
                                 [&] { return bystander->ForwardsSince(until).has_value(); }));
    }
  };
  // The first datagram must arrive; with a `limit`, one within that time.
  const auto expect_reaches = [this](int from, int to,
                                     absl::Duration limit = absl::ZeroDuration()) {
    // Seconds to wait for a late answer.
    const char* const wait = limit == absl::ZeroDuration() ? "5" : "1";
    EXPECT_TRUE(Reaches(host(from), Address(to), limit, wait))
        << "from " << host(from)->name() << " to " << host(to)->name();
  };

  const absl::Time start = absl::Now();
  Play({kAgent, Act::kStop});
  ASSERT_NO_FATAL_FAILURE(wait_long(start));
  const std::string silent = absl::StrCat(" ", host(kC)->name(), " -> ", host(kD)->name(), ",");
  // The idle ring is closed, perhaps later: an announcement may have used it last.
  EXPECT_TRUE(EventuallyTrue(
      kPatience, [&] { return !absl::StrContains(soft_fabric().Ctl({"rings"}).out, silent); }));
  absl::Time back = absl::Now();
  Play({kAgent, Act::kContinue});
  std::printf("agent stopped for %s: %s\n", absl::FormatDuration(back - start).c_str(),
              ExpectAllForward(back).c_str());
  expect_reaches(kD, kA, kBackWithin);
  expect_reaches(kD, kC);

  // Now stop fabricd as well. The running agents are not affected, including the silent ones.
  EXPECT_THAT(soft_fabric().Ctl({"rings"}).out, HasSubstr(silent));
  const absl::Time both = absl::Now();
  Play({kAgent, Act::kStop});
  Play({kFabricd, Act::kStop});
  ASSERT_NO_FATAL_FAILURE(wait_long(both));
  expect_reaches(kC, kD);
  back = absl::Now();
  Play({kAgent, Act::kContinue});
  std::printf("both stopped, agent continued: %s\n", ExpectAllForward(back).c_str());
  expect_reaches(kA, kD, kBackWithin);
  back = absl::Now();
  Play({kFabricd, Act::kContinue});
  std::printf("both continued: %s\n", ExpectAllForward(back).c_str());
  for (const int number : {kA, kB, kC}) expect_reaches(kD, number, kBackWithin);
  EXPECT_EQ(soft_fabric().Ctl({"show"}).exit_code, 0);
  EXPECT_LE(BystandersGap(start), kBystandersGap + traffic_->StallAllowance(start));
  EXPECT_EQ(BystandersLoss(start), 0u);
}

// A fabricd that exists but does not answer: the agent must wait, not give up as if there were
// none.
TEST_F(FailureToleranceTest, AgentWaitsForStoppedFabricdUntilTerminated) {
  StartHosts();
  const auto waits = [this] {
    return absl::StrContains(agent(kA).Log(), "does not answer; waiting for it");
  };
  soft_fabric().Kill(SIGSTOP);
  agent(kA).Kill(SIGKILL);
  agent(kA).Launch();
  ASSERT_TRUE(EventuallyTrue(kPatience, waits)) << agent(kA).Log();
  EXPECT_EQ(agent(kA).Stop(), 0) << agent(kA).Log();

  agent(kA).Launch();
  ASSERT_TRUE(EventuallyTrue(kPatience, waits)) << agent(kA).Log();
  soft_fabric().Kill(SIGCONT);
  agent(kA).WaitUntilReady();
  // B sends to the former queue pair until it hears the new one.
  EXPECT_TRUE(Reaches(host(kB), Address(kA), absl::Seconds(2), "0.1"));
  ExpectPing(host(kB), Address(kA));
}

// ---- Leftovers.

// The socket files below `directory`.
std::set<std::string> SocketFiles(const std::string& directory) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_socket()) files.insert(std::filesystem::relative(entry.path(), directory));
  }
  return files;
}

TEST_F(FailureToleranceTest, RestartAfterKillOfAllTakesOverLeftovers) {
  StartHosts();
  const std::set<std::string> sockets = SocketFiles(lab().directory());
  EXPECT_THAT(sockets, UnorderedElementsAre(
                           "fabric/fabricd.ctl", "fabric/fabricd.ro.ctl", "fabric/fabricd.sock",
                           "h1/run/eoibd.ctl", "h1/run/eoibd.ro.ctl", "h2/run/eoibd.ctl",
                           "h2/run/eoibd.ro.ctl", "h3/run/eoibd.ctl", "h3/run/eoibd.ro.ctl"));
  for (const int number : {kA, kB, kC}) agent(number).Kill(SIGKILL);
  soft_fabric().Kill(SIGKILL);
  // Left are stale socket files, and interfaces, which keep their addresses for the successor.
  // Rings are memfds, and end with their processes.
  EXPECT_EQ(SocketFiles(lab().directory()), sockets);
  EXPECT_EQ(SocketsBelow(lab().directory(), soft_fabric().host()), 0);
  for (const int number : {kA, kB, kC}) {
    EXPECT_EQ(SocketsBelow(lab().directory(), host(number)), 0);
    EXPECT_TRUE(host(number)->HasInterface("v1"));
  }

  soft_fabric().Start();
  for (const int number : {kA, kB, kC}) agent(number).Start();
  EXPECT_EQ(SocketFiles(lab().directory()), sockets);
  ExpectPing(host(kA), Address(kB));
  ExpectPing(host(kB), Address(kC));
}

TEST_F(FailureToleranceTest, CleanShutdownRemovesSocketsAndLeavesInterfaces) {
  StartHosts();
  for (const int number : {kA, kB, kC}) {
    EXPECT_EQ(agent(number).Stop(), 0) << agent(number).Log();
    EXPECT_TRUE(host(number)->HasInterface("v1"));
  }
  EXPECT_EQ(soft_fabric().Stop(), 0) << soft_fabric().Log();
  EXPECT_THAT(SocketFiles(lab().directory()), IsEmpty());
  soft_fabric().Start();
  for (const int number : {kA, kB, kC}) agent(number).Start();  // TearDown expects them to run
}

}  // namespace
}  // namespace eoib::lab
