// Many agents with configured MACs, some of them clones of others, through random starts, stops,
// crashes, partitions and loss. A holder that was established, and heard by all, keeps its MAC
// everywhere. In the end all agree on a holder of each MAC.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "absl/types/optional.h"
#include "control/protocol/protocol_simulation_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

class ConfiguredClaimsModelTest : public testing::Test {
 protected:
  static constexpr size_t kHosts = 12, kMacs = 6;

  static FdbKey Key(size_t mac) {
    return FdbKey(Vid(10), MacAddr::FromUint64(0x0200'5e10'0000 + mac));
  }
  // Each host has one MAC, so each MAC has two hosts.
  static FdbKey KeyOf(size_t host) { return Key(host % kMacs); }

  void Start(size_t host) {
    simulation_.Start(host);
    simulation_.engine(host).ClaimConfigured(KeyOf(host), 1);
  }
  absl::optional<MacClaim> OwnClaim(size_t host) {
    const auto& macs = simulation_.engine(host).own().current().macs;
    const auto mac = macs.find(KeyOf(host));
    if (mac == macs.end()) return absl::nullopt;
    return MacClaim{simulation_.hosts()[host].id, mac->second.sequence, mac->second.sticky,
                    mac->second.stage};
  }

  // The host that holds the MAC for all that run, with an established claim; or nothing.
  absl::optional<size_t> HolderForAll(FdbKey key) {
    for (size_t host = 0; host < kHosts; ++host) {
      if (KeyOf(host) != key || !simulation_.IsRunning(host) || !OwnClaim(host)->IsFixed())
        continue;
      bool all = true;
      for (size_t at = 0; at < kHosts && all; ++at) {
        if (!simulation_.IsRunning(at) || KeyOf(at) == key) continue;
        const auto held = simulation_.events(at).macs.find(key);
        all = held != simulation_.events(at).macs.end() && held->second == *OwnClaim(host);
      }
      if (all) return host;
    }
    return absl::nullopt;
  }

  // Lets time pass in small steps. `holders` keep their MACs in all of them.
  void PassWith(const std::map<size_t, size_t>& holders, absl::Duration time) {
    for (const absl::Time end = simulation_.clock().Now() + time;
         simulation_.clock().Now() < end;) {
      simulation_.Advance(absl::Milliseconds(20));
      for (const auto& [mac, holder] : holders) {
        for (size_t at = 0; at < kHosts; ++at) {
          if (!simulation_.IsRunning(at) || KeyOf(at) == Key(mac)) continue;
          const auto held = simulation_.events(at).macs.find(Key(mac));
          // A newcomer that has not heard of it yet.
          if (held == simulation_.events(at).macs.end()) continue;
          if (known_[mac].contains(at)) {
            ASSERT_EQ(held->second.agent, simulation_.hosts()[holder].id) << "at " << at;
          }
          if (held->second.agent == simulation_.hosts()[holder].id && held->second.IsFixed())
            known_[mac].insert(at);
        }
        ASSERT_EQ(OwnClaim(holder)->stage, ClaimStage::kEstablished);
      }
    }
  }

  // Clones come and go, and messages are lost. Agents that hold their MACs for all stay.
  void Disturb() {
    std::map<size_t, size_t> holders;
    known_.clear();
    for (size_t mac = 0; mac < kMacs; ++mac) {
      const absl::optional<size_t> holder = HolderForAll(Key(mac));
      if (!holder) continue;
      holders[mac] = *holder;
      for (size_t at = 0; at < kHosts; ++at) {
        if (simulation_.IsRunning(at)) known_[mac].insert(at);
      }
    }
    simulation_.network() = {0.05, 0.05, absl::Microseconds(50), absl::Milliseconds(10)};
    for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
      const size_t host = simulation_.Random(kHosts);
      const auto held = holders.find(host % kMacs);
      const bool stays = held != holders.end() && held->second == host;
      if (!simulation_.IsRunning(host)) {
        Start(host);
      } else if (!stays) {
        for (auto& [mac, hosts] : known_) hosts.erase(host);
        simulation_.Random(2) == 0 ? simulation_.Stop(host) : simulation_.Crash(host);
      }
      PassWith(holders, absl::Milliseconds(simulation_.Random(3000)));
    }
  }
  void Partition() {
    for (auto& host : simulation_.hosts()) host.side = static_cast<int>(simulation_.Random(2));
    for (int i = 0; i < 20; ++i) {
      const size_t host = simulation_.Random(kHosts);
      simulation_.IsRunning(host) ? simulation_.Crash(host) : Start(host);
      simulation_.Advance(absl::Seconds(simulation_.Random(15)));
    }
  }
  void Heal() {
    simulation_.network() = {};
    for (auto& host : simulation_.hosts()) host.side = 0;
    simulation_.Advance(AgentTable::kForget + absl::Minutes(3));
  }
  void ExpectAgreement() {
    for (size_t mac = 0; mac < kMacs; ++mac) {
      const bool is_claimed = simulation_.IsRunning(mac) || simulation_.IsRunning(mac + kMacs);
      EXPECT_EQ(HolderForAll(Key(mac)).has_value(), is_claimed) << "MAC " << mac;
      for (const size_t host : {mac, mac + kMacs}) {
        if (!simulation_.IsRunning(host)) continue;
        EXPECT_FALSE(simulation_.events(host).macs.contains(Key(mac))) << "its own";
      }
    }
  }

  ProtocolSimulation simulation_{SeedForTest()};
  // Where the present holder of each MAC was heard as such.
  std::map<size_t, std::set<size_t>> known_;
};

TEST_F(ConfiguredClaimsModelTest, HoldersKeepTheirMacsAndAllAgreeInTheEnd) {
  for (size_t i = 0; i < kHosts; ++i) simulation_.AddHost();
  for (size_t i = 0; i < kHosts; i += 2) Start(i);
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Heal();
    ExpectAgreement();
    Disturb();
    if (HasFailure()) return;
    Heal();
    ExpectAgreement();
    Partition();
  }
}

}  // namespace
}  // namespace eoib
