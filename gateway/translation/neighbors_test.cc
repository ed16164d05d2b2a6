#include "gateway/translation/neighbors.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "gateway/translation/addresses_for_test.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib::translation {
namespace {

// Keeps the addresses that the table reports.
class NeighborListener final : public Neighbors::Observer {
 public:
  void OnNeighbor(const IpAddr& ip) override { EXPECT_TRUE(ips.insert(ip).second); }
  void OnNeighborGone(const IpAddr& ip) override { EXPECT_EQ(ips.erase(ip), 1u); }
  std::set<IpAddr> ips;
};

class NeighborsTest : public testing::Test {
 protected:
  Counters counters_;
  NeighborListener listener_;
  absl::Time now_ = absl::UnixEpoch();
  Neighbors neighbors_{Options(), &counters_, &listener_};
};

TEST_F(NeighborsTest, WeakClaimsMoveNothing) {
  neighbors_.Learn(Ip(1), Mac(1), Neighbors::Claim::kWeak, now_);
  EXPECT_EQ(neighbors_.Find(Ip(1)), Mac(1)) << "the first claim of the address";
  neighbors_.Learn(Ip(1), Mac(2), Neighbors::Claim::kWeak, now_);
  EXPECT_EQ(neighbors_.Find(Ip(1)), Mac(1));
  neighbors_.Learn(Ip(1), Mac(2), Neighbors::Claim::kHas, now_);
  EXPECT_EQ(neighbors_.Find(Ip(1)), Mac(2));
  EXPECT_FALSE(neighbors_.HasMac(Mac(1)));
  EXPECT_EQ(counters_[Event::kMovedNeighbors], 1u);
}

TEST_F(NeighborsTest, ASmallerLimitEvictsTheLongestSilent) {
  for (uint32_t i = 1; i <= 4; ++i)
    neighbors_.Learn(Ip(i), Mac(i), Neighbors::Claim::kHas, now_ + absl::Seconds(i));
  Options options;
  options.max_neighbors = 2;
  neighbors_.Change(options);
  EXPECT_EQ(listener_.ips, (std::set<IpAddr>{Ip(3), Ip(4)}));
  EXPECT_EQ(counters_[Event::kEvicted], 2u);
}

TEST_F(NeighborsTest, RoutedPacketsSayNothing) {
  neighbors_.Learn(Ip(1), Mac(1), Neighbors::Claim::kHas, now_);
  now_ += absl::Seconds(10);
  neighbors_.HearFrom(Ip(1), Mac(2), now_);
  EXPECT_EQ(neighbors_.Heard(Ip(1)), absl::UnixEpoch());
  neighbors_.HearFrom(Ip(1), Mac(1), now_);
  EXPECT_EQ(neighbors_.Heard(Ip(1)), now_);
  neighbors_.HearFrom(Ip(2), Mac(1), now_);
  EXPECT_FALSE(neighbors_.Find(Ip(2)).has_value());
  EXPECT_EQ(neighbors_.Heard(Ip(2)), absl::InfinitePast());
}

TEST_F(NeighborsTest, ForgetsAMacThatIsAStations) {
  neighbors_.Learn(Ip(1), Mac(1), Neighbors::Claim::kHas, now_);
  neighbors_.Learn(Ip(2), Mac(1), Neighbors::Claim::kHas, now_);
  neighbors_.Learn(Ip(3), Mac(3), Neighbors::Claim::kHas, now_);
  neighbors_.ForgetMac(Mac(1));
  EXPECT_EQ(listener_.ips, std::set<IpAddr>{Ip(3)});
}

TEST_F(NeighborsTest, SavedAndRestored) {
  for (uint32_t n = 0; n < 20; ++n) {
    now_ += absl::Seconds(1);
    neighbors_.Learn(Ip(n), Mac(n / 2),
                     n % 2 == 0 ? Neighbors::Claim::kAnswer : Neighbors::Claim::kHas, now_);
  }
  const auto saved = neighbors_.Save(now_ + absl::Seconds(3));
  Neighbors restored(Options(), &counters_, &listener_);
  listener_.ips.clear();
  restored.Restore(saved, now_ + absl::Hours(1));
  EXPECT_EQ(restored.Save(now_ + absl::Hours(1)), saved);
  EXPECT_EQ(listener_.ips.size(), 20u);
}

TEST_F(NeighborsTest, Model) {
  std::mt19937_64 random(SeedForTest());
  Options options;
  options.max_neighbors = 16;
  options.ip_age = absl::Seconds(40);
  Neighbors neighbors(options, &counters_, &listener_);
  std::map<IpAddr, std::pair<MacAddr, absl::Time>> model;
  uint64_t evicted = 0;
  for (int step = 0; step < 20000; ++step) {
    now_ += absl::Seconds(1);
    neighbors.Expire(now_);
    std::erase_if(model,
                  [&](const auto& entry) { return entry.second.second <= now_ - options.ip_age; });
    const IpAddr ip = Ip(static_cast<uint32_t>(random() % 40));
    const MacAddr mac = Mac(random() % 4);
    const auto known = model.find(ip);
    if (random() % 3 == 0) {
      neighbors.HearFrom(ip, mac, now_);
      if (known != model.end() && known->second.first == mac) known->second.second = now_;
    } else {
      const auto claim = static_cast<Neighbors::Claim>(random() % 3);
      neighbors.Learn(ip, mac, claim, now_);
      if (known == model.end() || claim != Neighbors::Claim::kWeak || known->second.first == mac)
        model[ip] = {mac, now_};
    }
    if (model.size() > options.max_neighbors) {
      // AgedTable chooses the victim, but it must not be the entry just heard.
      const auto gone = std::find_if(model.begin(), model.end(), [&](const auto& entry) {
        return !neighbors.Find(entry.first).has_value();
      });
      ASSERT_NE(gone, model.end());
      ASSERT_NE(gone->first, ip);
      model.erase(gone);
      ++evicted;
    }
    ASSERT_EQ(neighbors.size(), model.size());
    std::set<IpAddr> ips;
    for (const auto& [its, expected] : model) {
      ASSERT_EQ(neighbors.Find(its), expected.first);
      ASSERT_EQ(neighbors.Heard(its), expected.second);
      ips.insert(its);
    }
    ASSERT_EQ(listener_.ips, ips);
    for (uint64_t n = 0; n < 4; ++n) {
      const bool has = std::any_of(model.begin(), model.end(),
                                   [&](const auto& e) { return e.second.first == Mac(n); });
      ASSERT_EQ(neighbors.HasMac(Mac(n)), has);
    }
  }
  EXPECT_GT(evicted, 0u);
  EXPECT_EQ(counters_[Event::kEvicted], evicted);
}

}  // namespace
}  // namespace eoib::translation
