// Many engines through random joins, stops, crashes, moves of MACs, partitions, loss, reordering
// and duplication. When the network is well again, every view must equal the truth.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/protocol/protocol_simulation_for_test.h"
#include "vswitch/base/sanitizer_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

FdbKey ModelKey(size_t number) {
  return FdbKey(Vid(1 + number % 7), MacAddr::FromUint64(0x0200'5e10'0000 + number));
}

class ProtocolModelTest : public testing::Test {
 protected:
  static constexpr size_t kMacs = 400;
  static constexpr absl::Duration kDiscovery = absl::Seconds(8);

  void Step() {
    const size_t host = simulation_.Random(simulation_.hosts().size());
    const size_t key = simulation_.Random(kMacs);
    const bool running = simulation_.IsRunning(host);
    switch (simulation_.Random(20)) {
      case 0:
        if (!running) simulation_.Start(host);
        break;
      case 1:
        if (running && simulation_.Random(3) == 0) Leave(host, /*orderly=*/true);
        break;
      case 2:
        if (running && simulation_.Random(3) == 0) Leave(host, /*orderly=*/false);
        break;
      case 3:
        simulation_.network().loss = simulation_.Random(4) == 0 ? 0.3 : 0.01;
        break;
      case 4:
        if (simulation_.Random(20) == 0) Partition();
        break;
      case 5:
        if (running)
          simulation_.engine(host).SetVPort(
              {static_cast<uint16_t>(2 + simulation_.Random(3)), "another", {}});
        break;
      case 6:
        if (running)
          simulation_.engine(host).RemoveVPort(static_cast<uint16_t>(2 + simulation_.Random(3)));
        break;
      default:
        if (running) Move(key, host);
        break;
    }
    simulation_.Touch(host);
    if (replicates_ && simulation_.Random(100) == 0) simulation_.Discover();
    simulation_.Advance(absl::Milliseconds(simulation_.Random(100)));
  }

  // A station appears at a host; where it was before, it is silent from now on and ages out.
  void Move(size_t key, size_t host) {
    if (!simulation_.engine(host).Claim(ModelKey(key), 1)) return;
    const auto before = place_.find(key);
    if (before != place_.end() && before->second != host && simulation_.IsRunning(before->second)) {
      left_.push_back({key, before->second});
    }
    place_[key] = host;
  }
  void Leave(size_t host, bool orderly) {
    if (orderly) {
      simulation_.Stop(host);
    } else {
      simulation_.Crash(host);
    }
  }
  void Partition() {
    for (auto& host : simulation_.hosts()) host.side = static_cast<int>(simulation_.Random(2));
  }
  // All faults end, and stations that left age out where they were.
  void Heal() {
    simulation_.network() = {};
    for (auto& host : simulation_.hosts()) host.side = 0;
    for (const auto& [key, host] : left_) {
      if (simulation_.IsRunning(host) && place_[key] != host) {
        simulation_.engine(host).Release(ModelKey(key));
        simulation_.Touch(host);
      }
    }
    Pass(AgentTable::kForget + 3 * GroupAnnouncer::kRepeat);
  }
  // Agents without a group look for each other every few seconds.
  void Pass(absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= kDiscovery) {
      if (replicates_) simulation_.Discover();
      simulation_.Advance(kDiscovery);
    }
  }

  void ExpectViewsEqualTheTruth() {
    std::map<FdbKey, MacClaim> truth;
    size_t running = 0;
    for (size_t i = 0; i < simulation_.hosts().size(); ++i) {
      if (!simulation_.IsRunning(i)) continue;
      ++running;
      for (const auto& [key, mac] : simulation_.engine(i).own().current().macs) {
        const auto [at, is_new] =
            truth.emplace(key, MacClaim{simulation_.hosts()[i].id, mac.sequence, mac.sticky});
        EXPECT_TRUE(is_new) << key.ToString() << " has two claimants";
      }
    }
    EXPECT_GT(truth.size(), 10u);
    for (size_t at = 0; at < simulation_.hosts().size(); ++at) {
      if (!simulation_.IsRunning(at)) continue;
      const auto& agents = simulation_.engine(at).agents();
      EXPECT_EQ(agents.size(), running - 1) << "at host " << at;
      for (size_t of = 0; of < simulation_.hosts().size(); ++of) {
        const ProtocolSimulation::Host& host = simulation_.hosts()[of];
        if (of == at || !simulation_.IsRunning(of)) continue;
        const auto view = agents.find(host.id);
        ASSERT_NE(view, agents.end()) << of << " at " << at;
        EXPECT_EQ(view->second->incarnation(), host.incarnation) << of << " at " << at;
        EXPECT_TRUE(view->second->view() == host.engine->own().announced()) << of << " at " << at;
        EXPECT_EQ(simulation_.events(at).in_use[host.id], std::vector{host.address})
            << of << " at " << at;
      }
      std::map<FdbKey, MacClaim> remote = truth;
      std::erase_if(
          remote, [&](const auto& mac) { return mac.second.agent == simulation_.hosts()[at].id; });
      EXPECT_TRUE(simulation_.events(at).macs == remote) << "MACs at host " << at;
    }
  }

  void RunModel();

  ProtocolSimulation simulation_{SeedForTest()};
  bool replicates_ = false;
  std::map<size_t, size_t> place_;               // of each MAC: the host where it appeared last
  std::vector<std::pair<size_t, size_t>> left_;  // MACs, and hosts that they left
};

void ProtocolModelTest::RunModel() {
  const size_t kHosts = kSanitized ? 40 : 200;
  for (size_t i = 0; i < kHosts; ++i) simulation_.AddHost();
  for (size_t i = 0; i < kHosts; i += 2) simulation_.Start(i);
  simulation_.network() = {0.05, 0.05, absl::Microseconds(50), absl::Milliseconds(20)};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) Step();

    Heal();
    ExpectViewsEqualTheTruth();
    if (HasFailure()) return;
    simulation_.network() = {0.05, 0.05, absl::Microseconds(50), absl::Milliseconds(20)};
  }
}

TEST_F(ProtocolModelTest, EveryViewEqualsTheTruthInTheEnd) { RunModel(); }

TEST_F(ProtocolModelTest, EveryViewEqualsTheTruthWithoutAGroup) {
  replicates_ = true;
  simulation_.SetReplicates();
  RunModel();
}

}  // namespace
}  // namespace eoib
