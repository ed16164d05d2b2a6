// Leak test: agents or fabricd are killed hundreds of times; the survivors' resources and the
// machine's leftovers must not grow.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/lab/resources.h"
#include "tests/lab/switch_test.h"
#include "tests/lab/traffic.h"

namespace eoib::lab {
namespace {

// A resource of the survivors, and how much it may grow in each round, from early to late rounds. A
// leak of one descriptor, or of a page every other round, is well above that. Memory files are
// counted, not measured: a ring grows with the load.
struct Measure {
  const char* what;
  int64_t ProcessResources::*value;
  double more_a_round;
  bool is_memory;
};
constexpr Measure kMeasures[] = {
    {"descriptors", &ProcessResources::descriptors, 0.1, false},
    {"ring mappings", &ProcessResources::ring_mappings, 0.1, false},
    {"KiB of anonymous memory", &ProcessResources::anonymous_kib, 0.25, true}};

int64_t Median(const std::vector<ProcessResources>& history, size_t from, size_t to,
               int64_t ProcessResources::*value) {
  std::vector<int64_t> values;
  for (size_t i = from; i < to; ++i) values.push_back(history[i].*value);
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// A leak grows steadily. The allocator's pages do not: they grow in a few rounds only.
int64_t SteadyGrowth(const std::vector<ProcessResources>& history,
                     int64_t ProcessResources::*value) {
  const size_t fifth = history.size() / 5;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t from = fifth; from < 4 * fifth; from += fifth) {
    const int64_t before = Median(history, from, from + fifth, value);
    least = std::min(least, Median(history, from + fifth, from + 2 * fifth, value) - before);
  }
  return 3 * least;
}

// The early rounds are the second fifth; the first fifth is for warming up.
void ExpectFlat(const std::string& process, const std::vector<ProcessResources>& history) {
  const size_t fifth = history.size() / 5;
  for (const Measure& measure : kMeasures) {
    const int64_t early = Median(history, fifth, 2 * fifth, measure.value);
    const int64_t late = Median(history, 4 * fifth, 5 * fifth, measure.value);
    std::printf("%-8s %-24s %7d early, %7d late\n", process.c_str(), measure.what,
                static_cast<int>(early), static_cast<int>(late));
    if (measure.is_memory && AreSanitized()) continue;
    EXPECT_LE(measure.is_memory ? SteadyGrowth(history, measure.value) : late - early,
              measure.more_a_round * 3 * fifth)
        << process << ": growing " << measure.what;
  }
}

// A is killed; B and C observe.
class LeakTest : public SwitchTest {
 protected:
  static constexpr int kA = 1, kB = 2, kC = 3;

  void SetUp() override {
    SwitchTest::SetUp();
    if (AreSanitized())
      std::printf(
          "MEMORY IS NOT COMPARED: a sanitizer keeps back what was freed. Descriptors and mappings "
          "are.\n");
    const std::vector<Agent*> hosts = AddNumberedAgents(3);
    // Otherwise a lost ARP request would make its round a second longer; outages are not measured
    // here.
    for (Agent* agent : hosts) agent->host()->Sysctl("ipv4/neigh/v1/retrans_time_ms", "50");
    streams_ = {traffic_->Add(host(kA), Address(kA), host(kB), Address(kB)),
                traffic_->Add(host(kB), Address(kB), host(kA), Address(kA)),
                traffic_->Add(host(kB), Address(kB), host(kC), Address(kC)),
                traffic_->Add(host(kC), Address(kC), host(kB), Address(kB))};
    // Broadcasts of all, because each comes back to its port through a ring of 256 KiB, of which
    // every page is touched only once.
    for (const auto& [from, to] : {std::pair(kA, kC), std::pair(kB, kA), std::pair(kC, kB)})
      streams_.push_back(traffic_->Add(host(from), Address(from), host(to), "10.0.0.255"));
    traffic_->Start();
    AwaitForwarding(absl::Now());
  }

  void TearDown() override {
    traffic_.reset();
    SwitchTest::TearDown();
  }

  void AwaitForwarding(absl::Time since) {
    for (const Stream* stream : streams_) {
      ASSERT_TRUE(
          EventuallyTrue(kPatience, [&] { return stream->ForwardsSince(since).has_value(); }));
    }
  }

  // Waits until all ports are registered and are members of the group again.
  void AwaitMembers() {
    ASSERT_TRUE(EventuallyTrue(kPatience, [&] {
      const std::string groups = soft_fabric().Ctl({"groups"}).out;
      return absl::StrContains(groups, "h1 ") && absl::StrContains(groups, "h2 ") &&
             absl::StrContains(groups, "h3 ");
    }));
  }

  // Kills the agent, and also its successor, which has come differently far in each round.
  void KillAgentInRound(int round) {
    agent(kA).Kill(SIGKILL);
    agent(kA).Launch();
    if (round % 4 != 0) return;
    absl::SleepFor(absl::Milliseconds(round % 40));
    agent(kA).Kill(SIGKILL);
    agent(kA).Launch();
  }

  template <typename Party>
  void StopAndContinue(Party* stopped) {
    const absl::Time start = absl::Now();
    stopped->Kill(SIGSTOP);
    ASSERT_TRUE(
        EventuallyTrue(kPatience, [&] { return streams_[2]->ForwardsSince(start).has_value(); }));
    stopped->Kill(SIGCONT);
  }

  std::vector<Host*> AllHosts() { return {host(kA), host(kB), host(kC), soft_fabric().host()}; }

  // Plays `rounds` rounds, with a sanitizer's agents a quarter of them, and measures the survivors
  // after each.
  void PlayRounds(int rounds, const std::map<std::string, std::function<pid_t()>>& survivors,
                  const std::function<void(int round)>& play) {
    if (AreSanitized()) rounds /= 4;
    const std::string before = SettledLeftovers(lab().directory(), AllHosts());
    std::map<std::string, std::vector<ProcessResources>> histories;
    absl::Duration longest;
    for (int round = 0; round < rounds; ++round) {
      const absl::Time start = absl::Now();
      play(round);
      AwaitForwarding(absl::Now());
      ASSERT_FALSE(HasFailure()) << "round " << round;
      longest = std::max(longest, absl::Now() - start);
      for (const auto& [name, pid] : survivors) histories[name].push_back(ResourcesOf(pid()));
    }
    std::printf("%d rounds, the longest %d ms\n", rounds,
                static_cast<int>(absl::ToInt64Milliseconds(longest)));
    for (const auto& [name, history] : histories) ExpectFlat(name, history);
    for (const auto& [name, pid] : survivors) EXPECT_FALSE(UsesDevShm(pid())) << name;
    EXPECT_FALSE(UsesDevShm(agent(kA).pid()));
    ExpectLeftovers(before, lab().directory(), AllHosts());
  }

  std::function<pid_t()> PidOf(int number) {
    return [this, number] { return agent(number).pid(); };
  }

  std::unique_ptr<Traffic> traffic_ = std::make_unique<Traffic>(absl::Milliseconds(2));
  std::vector<Stream*> streams_;
};

TEST_F(LeakTest, TwoHundredAgentKillsLeakNothing) {
  PlayRounds(
      200,
      {{"B", PidOf(kB)}, {"C", PidOf(kC)}, {"fabricd", [this] { return soft_fabric().pid(); }}},
      [this](int round) { KillAgentInRound(round); });
}

TEST_F(LeakTest, TwoHundredFabricdKillsLeakNothing) {
  PlayRounds(200, {{"A", PidOf(kA)}, {"B", PidOf(kB)}, {"C", PidOf(kC)}}, [this](int) {
    soft_fabric().Kill(SIGKILL);
    soft_fabric().Start();
    AwaitMembers();
  });
}

// Either of the two may be back first. The others reclaim the state of lost peers every ten
// seconds, and until then each kill costs them some memory. 600 rounds take eight times as long.
TEST_F(LeakTest, SixHundredKillsOfBothLeakNothing) {
  PlayRounds(600, {{"B", PidOf(kB)}, {"C", PidOf(kC)}}, [this](int round) {
    soft_fabric().Kill(SIGKILL);
    agent(kA).Kill(SIGKILL);
    if (round % 2 == 0) agent(kA).Launch();
    soft_fabric().Start();
    if (round % 2 != 0) agent(kA).Launch();
    AwaitMembers();
  });
}

TEST_F(LeakTest, TwoHundredStopsLeakNothing) {
  PlayRounds(
      200,
      {{"A", PidOf(kA)}, {"B", PidOf(kB)}, {"fabricd", [this] { return soft_fabric().pid(); }}},
      [this](int round) {
        if (round % 2 == 0) return StopAndContinue(&agent(kA));
        StopAndContinue(&soft_fabric());
      });
}

}  // namespace
}  // namespace eoib::lab
