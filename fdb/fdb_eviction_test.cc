// Limits and eviction: which vPort gives way in a full FDB.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "fdb/fdb_policy_test_fixture.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

using Learned = Fdb::Learned;

TEST_F(FdbPolicyTest, FloodDisplacesOnlyItsOwnNewEntries) {
  Make({.limit = 1000});
  LearnMany(1, 100, kV1);
  LearnMany(1001, 50, kV2);
  LearnMany(2001, 200, kV3);
  for (uint64_t i = 0; i < 100'000; ++i) Learn(Key(1'000'000 + i), kV3);
  EXPECT_EQ(Known(1, 100, kV1), 100u);
  EXPECT_EQ(Known(1001, 50, kV2), 50u);
  EXPECT_EQ(Known(2001, 200, kV3), 200u) << "the same entries as before";
  EXPECT_EQ(fdb_->size(), 1000u);
  EXPECT_EQ(fdb_->counters().evicted, 100'000u - (1000 - 350));
  EXPECT_EQ(fdb_->counters().learn_limited, 0u);
}

TEST_F(FdbPolicyTest, SmallVPortGetsRoomFromLargestVPort) {
  Make({.limit = 100});
  LearnMany(1, 30, kV1);
  LearnMany(101, 70, kV2);
  LearnMany(201, 40, kV3);
  EXPECT_EQ(Known(1, 30, kV1), 30u) << "never had most";
  EXPECT_EQ(fdb_->Held(kV2), 35u);
  EXPECT_EQ(fdb_->Held(kV3), 35u);
  EXPECT_EQ(fdb_->size(), 100u);
}

// Two vPorts with equally many entries do not evict each other's in turn.
TEST_F(FdbPolicyTest, HasRoomIfNoEntryHasToGiveWay) {
  Fdb* const fdb = Make({.limit = 20, .vport_limit = 15});
  LearnMany(0, 14, kV1);
  EXPECT_TRUE(fdb->HasRoom(kV1));
  LearnMany(14, 1, kV1);
  EXPECT_FALSE(fdb->HasRoom(kV1)) << "the limit of the vPort";
  EXPECT_TRUE(fdb->HasRoom(kV2));
  LearnMany(100, 5, kV2);
  EXPECT_FALSE(fdb->HasRoom(kV2)) << "the limit of the VES";
  fdb->FlushLearned(kV1);
  EXPECT_TRUE(fdb->HasRoom(kV1));
}

TEST_F(FdbPolicyTest, EqualVPortsDoNotEvictEachOther) {
  Make({.limit = 100});
  LearnMany(1, 50, kV1);
  LearnMany(101, 50, kV2);
  Learn(Key(500), kV1);
  Learn(Key(501), kV2);
  EXPECT_EQ(fdb_->Held(kV1), 50u);
  EXPECT_EQ(fdb_->Held(kV2), 50u);
  EXPECT_EQ(Find(Key(500)), kV1);
  EXPECT_EQ(Find(Key(501)), kV2);
}

TEST_F(FdbPolicyTest, NoEvictionIfEachVPortHasOneEntry) {
  Make({.limit = 50});
  for (uint32_t i = 1; i <= 50; ++i) ASSERT_EQ(Learn(Key(i), VPortId(i)), Learned::kNew);
  EXPECT_EQ(Learn(Key(51), VPortId(51)), Learned::kLimit);
  EXPECT_EQ(fdb_->counters().learn_limited, 1u);
  EXPECT_EQ(Learn(Key(1), VPortId(51)), Learned::kMoved) << "known MACs still move";
  EXPECT_TRUE(fdb_->AddStatic(Key(52), VPortId(52)).ok())
      << "static entries are the operator's will";
}

TEST_F(FdbPolicyTest, VPortAtItsLimitEvictsItsOwnEntries) {
  Make({.limit = 1000, .vport_limit = 10});
  fdb_->SetVPortPolicy(kV2, {.limit = 20});
  LearnMany(1, 15, kV1);
  LearnMany(101, 25, kV2);
  EXPECT_EQ(fdb_->Held(kV1), 10u);
  EXPECT_EQ(fdb_->Held(kV2), 20u);
  EXPECT_EQ(fdb_->counters().evicted, 10u);
  EXPECT_EQ(Learn(Key(101), kV1), Learned::kMoved) << "a move counts, too";
  EXPECT_EQ(fdb_->Held(kV1), 10u);
  EXPECT_EQ(Known(1, 9, kV1), 9u);
}

// Otherwise new entries would displace each other while long silent ones keep their places.
TEST_F(FdbPolicyTest, VPortAtItsLimitReclaimsAgedEntriesFirst) {
  Make({.limit = 1000, .vport_limit = 100});
  LearnMany(1, 100, kV1);
  clock_.Advance(absl::Seconds(301));
  LearnMany(1001, 50, kV1);
  EXPECT_EQ(Known(1001, 50, kV1), 50u);
  EXPECT_EQ(fdb_->counters().evicted, 0u);
}

// A sticky vPort pins all that it learns, so its entries could never be evicted.
TEST_F(FdbPolicyTest, StickyVPortGetsOnlyItsShare) {
  Make({.limit = 100});
  fdb_->SetVPortPolicy(kV3, {.sticky = true});
  LearnMany(1, 20, kV1);
  LearnMany(101, 60, kV2);
  for (uint64_t i = 0; i < 1000; ++i) Learn(Key(1000 + i), kV3, FdbOrigin::kLocalLearned);
  EXPECT_EQ(Known(1, 20, kV1), 20u);
  EXPECT_EQ(Known(101, 60, kV2), 40u);
  EXPECT_EQ(fdb_->Held(kV3), 40u) << "the first that it brought";
  EXPECT_EQ(Known(1000, 40, kV3), 40u);
  EXPECT_EQ(Learn(Key(500), kV1), Learned::kNew) << "a vPort below its share learns on";
}

// Freezing also pins entries, and a sender can cause it by making MACs flap.
TEST_F(FdbPolicyTest, FrozenEntriesCountForTheirVPort) {
  Make({.limit = 100, .damping = {.moves = 2}});
  LearnMany(1, 60, kV1);
  for (uint64_t i = 1001; i <= 1040; ++i) {
    Learn(Key(i), kV2);
    Learn(Key(i), kV1);
    ASSERT_EQ(Learn(Key(i), kV2), Learned::kPinned);
  }
  ASSERT_EQ(fdb_->Holdings()[1].pinned, 40u);
  for (uint64_t i = 2001; i <= 3000; ++i) Learn(Key(i), kV2);
  EXPECT_EQ(fdb_->Held(kV1), 50u);
  EXPECT_EQ(fdb_->Held(kV2), 50u);
}

// Random learning at limits, checked against the rules: at most one entry is evicted for a new one,
// it belongs to the vPort that has most, and all counts are right.
TEST(FdbRoomModelTest, RandomLearning) {
  const uint64_t seed = SeedForTest();
  SCOPED_TRACE(seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  FakeClock clock;
  constexpr size_t kLimit = 60, kVPortLimit = 30;
  Fdb fdb({.ageing = absl::Seconds(40),
           .limit = kLimit,
           .vport_limit = kVPortLimit,
           .damping = {.action = MoveDamper::Action::kOff}},
          &clock);
  std::map<FdbKey, VPortId> before;
  for (int step = 0; step < 6000; ++step) {
    const FdbKey key = Key(1 + random() % 200, random() % 3);
    const VPortId vport(static_cast<uint32_t>(std::min(random() % 8, random() % 8)));
    std::map<VPortId, size_t> held;
    for (const auto& [k, v] : before) ++held[v];
    size_t most = 0;
    for (const auto& [v, count] : held) most = std::max(most, count);
    const size_t own = held[vport];
    const Learned what = fdb.Learn(key, vport, FdbOrigin::kRemoteLearned).what;
    std::map<FdbKey, VPortId> after;
    for (const Fdb::Entry& entry : fdb.Dump()) after.emplace(entry.key, entry.vport);
    std::vector<VPortId> gone;
    for (const auto& [k, v] : before) {
      if (k != key && !after.contains(k)) gone.push_back(v);
    }
    ASSERT_LE(gone.size(), 1u) << step;
    ASSERT_LE(after.size(), kLimit) << step;
    ASSERT_EQ(after.contains(key), what != Learned::kLimit || before.contains(key)) << step;
    if (!gone.empty()) {
      const size_t victim = held[gone[0]];
      ASSERT_TRUE(gone[0] == vport
                      ? own >= kVPortLimit || (before.size() >= kLimit && most <= own + 1)
                      : before.size() >= kLimit && victim == most && most > own + 1)
          << step << ": of " << gone[0].value() << " with " << victim << " for " << vport.value()
          << " with " << own;
    }
    std::map<VPortId, size_t> counted;
    for (const auto& [k, v] : after) ++counted[v];
    for (const auto& [v, count] : counted) {
      ASSERT_EQ(fdb.Held(v), count) << step;
      ASSERT_LE(count, kVPortLimit);
    }
    ASSERT_EQ(fdb.size(), after.size());
    if (random() % 200 == 0) fdb.FlushVlan(Vid(random() % 3));
    if (random() % 200 == 0) fdb.FlushLearned(VPortId(random() % 8));
    if (random() % 10 == 0) {
      clock.Advance(absl::Seconds(1));
      fdb.Age();  // one call is enough: the table is small
    }
    before.clear();
    for (const Fdb::Entry& entry : fdb.Dump()) before.emplace(entry.key, entry.vport);
    ASSERT_EQ(fdb.size(), before.size());
  }
  EXPECT_GT(fdb.counters().evicted, 100u);
  EXPECT_GT(fdb.counters().aged, 10u);
}

}  // namespace
}  // namespace eoib
