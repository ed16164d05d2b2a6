// What the FDB decides beyond learning: who gives way, what stays, what freezes, and what those who watch are told.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "fdb/fdb.h"
#include "fdb/seed_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Learned = Fdb::Learned;
using Kind = FdbEvent::Kind;

const VPortId kV1(1), kV2(2), kV3(3);
FdbKey Key(uint64_t mac, uint16_t vid = 0) { return FdbKey(Vid(vid), MacAddr::FromUint64(0x0200'0000'0000 + mac)); }

class FdbPolicyTest : public testing::Test {
 protected:
  Fdb* Make(const Fdb::Options& options) {
    fdb_ = std::make_unique<Fdb>(options, &clock_);
    return fdb_.get();
  }
  static VPortId Find(const Fdb& fdb, FdbKey key) {
    VPortId out;
    fdb.Find({&key, 1}, {&out, 1});
    return out;
  }
  VPortId Find(FdbKey key) const { return Find(*fdb_, key); }
  Learned Learn(FdbKey key, VPortId vport, FdbOrigin origin = FdbOrigin::kRemoteLearned) {
    return fdb_->Learn(key, vport, origin).what;
  }
  void LearnMany(uint64_t first, uint64_t count, VPortId vport) {
    for (uint64_t i = first; i < first + count; ++i) Learn(Key(i), vport);
  }
  size_t Known(uint64_t first, uint64_t count, VPortId vport) const {
    size_t known = 0;
    for (uint64_t i = first; i < first + count; ++i) known += Find(Key(i)) == vport;
    return known;
  }
  // Kinds of the events since the last call.
  std::vector<Kind> Events() {
    std::vector<Kind> kinds;
    std::vector<FdbEvent> events;
    EXPECT_EQ(fdb_->events().Read(&next_event_, ~size_t{0}, &events), 0u);
    for (const FdbEvent& event : events) kinds.push_back(event.kind);
    if (!events.empty()) last_event_ = events.back();
    return kinds;
  }

  FakeClock clock_;
  FdbBudget budget_{100};
  std::unique_ptr<Fdb> fdb_;
  uint64_t next_event_ = 0;
  FdbEvent last_event_;
};

// ---- Room -------------------------------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, AnAttackerDisplacesNobodyElsesEntryNorHisOwnOldOnes) {
  Make({.limit = 1000});
  LearnMany(1, 100, kV1);
  LearnMany(1001, 50, kV2);
  LearnMany(2001, 200, kV3);
  for (uint64_t i = 0; i < 100'000; ++i) Learn(Key(1'000'000 + i), kV3);
  EXPECT_EQ(Known(1, 100, kV1), 100u);
  EXPECT_EQ(Known(1001, 50, kV2), 50u);
  EXPECT_EQ(Known(2001, 200, kV3), 200u) << "what he had before";
  EXPECT_EQ(fdb_->size(), 1000u);
  EXPECT_EQ(fdb_->counters().evicted, 100'000u - (1000 - 350));
  EXPECT_EQ(fdb_->counters().learn_limited, 0u);
}

TEST_F(FdbPolicyTest, WhoHasFewGetsRoomFromWhoHasMost) {
  Make({.limit = 100});
  LearnMany(1, 30, kV1);
  LearnMany(101, 70, kV2);
  LearnMany(201, 40, kV3);
  EXPECT_EQ(Known(1, 30, kV1), 30u) << "never had most";
  EXPECT_EQ(fdb_->Held(kV2), 35u);
  EXPECT_EQ(fdb_->Held(kV3), 35u);
  EXPECT_EQ(fdb_->size(), 100u);
}

// Two that have as many do not take turns at each other's cost.
TEST_F(FdbPolicyTest, EqualsLeaveEachOtherAlone) {
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

TEST_F(FdbPolicyTest, WhereAllHaveOneNobodyIsDisplaced) {
  Make({.limit = 50});
  for (uint32_t i = 1; i <= 50; ++i) ASSERT_EQ(Learn(Key(i), VPortId(i)), Learned::kNew);
  EXPECT_EQ(Learn(Key(51), VPortId(51)), Learned::kLimit);
  EXPECT_EQ(fdb_->counters().learn_limited, 1u);
  EXPECT_EQ(Learn(Key(1), VPortId(51)), Learned::kMoved) << "known MACs still move";
  EXPECT_TRUE(fdb_->AddStatic(Key(52), VPortId(52)).ok()) << "static entries are the operator's will";
}

TEST_F(FdbPolicyTest, AtItsOwnLimitAVPortGivesUpItsOwn) {
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

// Else the newest would displace each other while what nobody has heard for long keeps its place.
TEST_F(FdbPolicyTest, AtItsOwnLimitAVPortGivesUpWhatAgedOutFirst) {
  Make({.limit = 1000, .vport_limit = 100});
  LearnMany(1, 100, kV1);
  clock_.Advance(absl::Seconds(301));
  LearnMany(1001, 50, kV1);
  EXPECT_EQ(Known(1001, 50, kV1), 50u);
  EXPECT_EQ(fdb_->counters().evicted, 0u);
}

TEST_F(FdbPolicyTest, AHostsLimitIsSharedByItsVeses) {
  Fdb* const fdb = Make({.limit = 1000, .budget = &budget_});
  {
    Fdb other({.limit = 1000, .budget = &budget_}, &clock_);
    LearnMany(1, 80, kV1);
    for (uint64_t i = 1; i <= 200; ++i) other.Learn(Key(i), kV1, FdbOrigin::kRemoteLearned);
    EXPECT_EQ(budget_.used(), 100u);
    EXPECT_EQ(fdb->size(), 50u) << "the other took from who had more, until both had as many";
    EXPECT_EQ(other.size(), 50u);
    LearnMany(1001, 500, kV2);
    EXPECT_EQ(budget_.used(), 100u);
    EXPECT_EQ(fdb->Held(kV2), 33u);
    EXPECT_NEAR(static_cast<double>(fdb->Held(kV1)), 33, 1);
    EXPECT_NEAR(static_cast<double>(other.size()), 33, 1);
  }
  EXPECT_EQ(budget_.used(), fdb->size()) << "what the other had is free again";
  LearnMany(5001, 500, kV1);
  EXPECT_EQ(fdb->size(), 100u);
}

// A sticky vPort pins all that it learns, so none of it could be evicted again.
TEST_F(FdbPolicyTest, AStickyVPortGetsItsShareAndNoMore) {
  Make({.limit = 100});
  fdb_->SetVPortPolicy(kV3, {.sticky = true});
  LearnMany(1, 20, kV1);
  LearnMany(101, 60, kV2);
  for (uint64_t i = 0; i < 1000; ++i) Learn(Key(1000 + i), kV3, FdbOrigin::kLocalLearned);
  EXPECT_EQ(Known(1, 20, kV1), 20u);
  EXPECT_EQ(Known(101, 60, kV2), 40u);
  EXPECT_EQ(fdb_->Held(kV3), 40u) << "the first that it brought";
  EXPECT_EQ(Known(1000, 40, kV3), 40u);
  EXPECT_EQ(Learn(Key(500), kV1), Learned::kNew) << "who has less than his share learns on";
}

// Freezing makes entries pinned, too, and whoever has MACs flap can have it happen.
TEST_F(FdbPolicyTest, FrozenEntriesCountAsTheirVPorts) {
  Make({.limit = 100, .damping = {.moves = 2}});
  LearnMany(1, 60, kV1);
  for (uint64_t i = 1001; i <= 1040; ++i) {
    Learn(Key(i), kV1);
    Learn(Key(i), kV2);
    ASSERT_EQ(Learn(Key(i), kV1), Learned::kPinned);
  }
  ASSERT_EQ(fdb_->Holdings()[1].pinned, 40u);
  for (uint64_t i = 2001; i <= 3000; ++i) Learn(Key(i), kV2);
  EXPECT_EQ(fdb_->Held(kV1), 50u);
  EXPECT_EQ(fdb_->Held(kV2), 50u);
}

TEST_F(FdbPolicyTest, AStickyVPortTakesNoMoreThanItsShareFromOtherVeses) {
  Fdb* const fdb = Make({.limit = 1000, .budget = &budget_});
  Fdb other({.limit = 1000, .budget = &budget_}, &clock_);
  other.SetVPortPolicy(kV1, {.sticky = true});
  LearnMany(1, 80, kV1);
  for (uint64_t i = 1; i <= 200; ++i) other.Learn(Key(i), kV1, FdbOrigin::kLocalLearned);
  EXPECT_EQ(fdb->size(), 50u);
  EXPECT_EQ(other.size(), 50u);
}

// Learning at random, with limits, against what is allowed to happen: at most one entry goes for one that comes, it belongs to
// who has most, and nobody is counted wrong.
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
      ASSERT_TRUE(gone[0] == vport ? own >= kVPortLimit || (before.size() >= kLimit && most <= own + 1)
                                   : before.size() >= kLimit && victim == most && most > own + 1)
          << step << ": of " << gone[0].value() << " with " << victim << " for " << vport.value() << " with " << own;
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
      fdb.Age();  // in one call: the table is small
    }
    before.clear();
    for (const Fdb::Entry& entry : fdb.Dump()) before.emplace(entry.key, entry.vport);
    ASSERT_EQ(fdb.size(), before.size());
  }
  EXPECT_GT(fdb.counters().evicted, 100u);
  EXPECT_GT(fdb.counters().aged, 10u);
}

// ---- Flushing and ageing ----------------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, AFlushIsSeenAtOnceAndReclaimedLater) {
  Make({.limit = 100'000});
  for (uint64_t i = 1; i <= 20'000; ++i) Learn(Key(i, i % 4), i % 2 == 0 ? kV1 : kV2);
  next_event_ = fdb_->events().end();
  const size_t full = fdb_->memory_bytes();
  EXPECT_EQ(fdb_->FlushVlan(Vid(1)), 5000u);
  EXPECT_THAT(Events(), ElementsAre(Kind::kFlushed));
  EXPECT_EQ(last_event_.scope, FdbEvent::Scope::kVlan);
  EXPECT_EQ(last_event_.count, 5000u);
  EXPECT_EQ(fdb_->FlushLearned(kV1), 10'000u);
  EXPECT_EQ(fdb_->size(), 5000u);
  EXPECT_EQ(fdb_->counters().flushed, 15'000u);
  EXPECT_EQ(fdb_->table().size(), 20'000u) << "no walk through the table took them out";
  for (uint64_t i = 1; i <= 20'000; ++i) ASSERT_EQ(Find(Key(i, i % 4)), i % 4 == 3 ? kV2 : VPortId::None()) << i;
  uint16_t stale;
  const FdbKey flushed = Key(1, 1);
  EXPECT_EQ(fdb_->Refresh({&flushed, 1}, {&kV2, 1}, {&stale, 1}), 1u) << "it is to be learned anew";
  EXPECT_EQ(Learn(flushed, kV2), Learned::kNew);
  EXPECT_EQ(Find(flushed), kV2);
  for (int second = 0; second < 30; ++second) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(fdb_->Age(), 0u) << "what was flushed did not age out";
  }
  EXPECT_EQ(fdb_->size(), 5001u);
  LearnMany(50'001, 3000, kV3);  // changes make the table smaller, bit by bit
  EXPECT_LT(fdb_->memory_bytes(), full * 3 / 4);
}

// A port that goes down is flushed, and learns as much again before anybody comes to reclaim.
TEST_F(FdbPolicyTest, WhatWasFlushedDoesNotPileUp) {
  for (const bool host : {false, true}) {
    Make({.limit = host ? 100'000u : 1000u, .budget = host ? &budget_ : nullptr});
    const size_t limit = host ? budget_.limit() : 1000;
    for (uint64_t round = 0; round < 20; ++round) {
      LearnMany(1 + round * limit, limit, kV1);
      EXPECT_EQ(fdb_->size(), limit);
      ASSERT_LE(fdb_->table().size(), 2 * limit) << round;
      fdb_->FlushLearned(kV1);
    }
    EXPECT_EQ(fdb_->counters().evicted, 0u);
  }
}

TEST_F(FdbPolicyTest, AgeingIsSpreadOverTime) {
  Make({.ageing = absl::Seconds(300), .limit = 40'000});
  LearnMany(1, 40'000, kV1);
  clock_.Advance(absl::Seconds(250));
  fdb_->Age();
  clock_.Advance(absl::Seconds(51));
  EXPECT_TRUE(Find(Key(1)).IsNone()) << "though it is still in the table";
  EXPECT_EQ(fdb_->Age(), 40'000u) << "after a pause all of it is due";
  LearnMany(1, 40'000, kV1);
  for (int i = 0; i < 300; ++i) {
    clock_.Advance(absl::Seconds(1));
    ASSERT_EQ(fdb_->Age(), 0u);
  }
  size_t aged = 0, most = 0;
  for (int i = 0; i < 32; ++i) {
    clock_.Advance(absl::Seconds(1));
    const size_t now = fdb_->Age();
    aged += now;
    if (i < 10) most = std::max(most, now);  // then the table shrinks, and what is left is soon done
  }
  EXPECT_EQ(aged, 40'000u);
  EXPECT_LE(most, 40'000u / 20) << "a thirtieth each second";
  EXPECT_EQ(fdb_->counters().aged, 80'000u);
}

// Ticks go round after 65,536; an agent that was stopped that long must not find the oldest entries young.
TEST_F(FdbPolicyTest, NothingSurvivesALongStop) {
  Make({});
  Learn(Key(1), kV1);
  clock_.Advance(absl::Seconds(65536));
  fdb_->Age();
  EXPECT_TRUE(Find(Key(1)).IsNone());
  EXPECT_EQ(fdb_->size(), 0u);
}

// ---- Sticky -----------------------------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, WhatIsStickyStays) {
  Make({.limit = 100});
  fdb_->SetVPortPolicy(kV1, {.limit = 2, .sticky = true});
  EXPECT_EQ(Learn(Key(1), kV1, FdbOrigin::kLocalLearned), Learned::kNew);
  EXPECT_EQ(Learn(Key(2), kV2), Learned::kNew);
  EXPECT_EQ(Learn(Key(2), kV1, FdbOrigin::kLocalLearned), Learned::kMoved) << "from then on it stays";
  EXPECT_EQ(Learn(Key(3), kV1, FdbOrigin::kLocalLearned), Learned::kLimit) << "nothing that is kept gives way";
  Events();
  const Fdb::LearnResult stolen = fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned);
  EXPECT_EQ(stolen.what, Learned::kPinned);
  EXPECT_EQ(stolen.previous, kV1);
  EXPECT_THAT(Events(), ElementsAre(Kind::kRefused));
  EXPECT_EQ(last_event_.from, kV1);
  EXPECT_EQ(last_event_.to, kV2);
  EXPECT_EQ(fdb_->counters().sticky_refused, 1u);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(fdb_->Age(), 0u);
  EXPECT_EQ(fdb_->Flush(), 0u);
  EXPECT_EQ(fdb_->FlushLearned(kV1), 0u);
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_TRUE(fdb_->Dump()[0].sticky);
  EXPECT_EQ(fdb_->FlushSticky(kV1), 2u);
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kNew);
}

TEST_F(FdbPolicyTest, WatchersAreToldOfSomeRefusalsOnly) {
  Make({});
  fdb_->SetVPortPolicy(kV1, {.sticky = true});
  Learn(Key(1), kV1, FdbOrigin::kLocalLearned);
  Events();
  for (int i = 0; i < 1000; ++i) Learn(Key(1), kV2);
  EXPECT_EQ(Events().size(), 10u);
  clock_.Advance(absl::Seconds(1));
  Learn(Key(1), kV2);
  EXPECT_EQ(Events().size(), 1u);
  EXPECT_EQ(fdb_->counters().sticky_refused, 1001u);
}

// ---- Moves ------------------------------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, TheFifthMoveFreezes) {
  Make({});
  Learn(Key(1), kV1);
  for (int i = 1; i <= 4; ++i) {
    clock_.Advance(absl::Seconds(40));
    ASSERT_EQ(Learn(Key(1), i % 2 == 0 ? kV1 : kV2), Learned::kMoved) << i;
  }
  Events();
  clock_.Advance(absl::Seconds(19));
  const Fdb::LearnResult fifth = fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned);
  EXPECT_EQ(fifth.what, Learned::kPinned);
  EXPECT_TRUE(fifth.damped);
  EXPECT_THAT(Events(), ElementsAre(Kind::kFrozen));
  EXPECT_EQ(last_event_.from, kV1);
  EXPECT_EQ(last_event_.to, kV2);
  EXPECT_EQ(Find(Key(1)), kV1) << "where it was before the fifth";
  EXPECT_TRUE(fdb_->Dump()[0].frozen);
  EXPECT_EQ(fdb_->frozen().at(Key(1)).at, kV1);
  EXPECT_FALSE(fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned).damped) << "it is told once";
  EXPECT_EQ(fdb_->counters().froze, 1u);
  EXPECT_EQ(fdb_->counters().frozen_refused, 1u);
  // For so long, also if it is silent for more than the ageing time.
  clock_.Advance(absl::Seconds(179));
  fdb_->Age();
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kPinned);
  clock_.Advance(absl::Seconds(1));
  fdb_->Age();
  EXPECT_THAT(Events(), ElementsAre(Kind::kRefused, Kind::kRefused, Kind::kThawed));
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kMoved);
  EXPECT_EQ(fdb_->counters().thawed, 1u);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
}

TEST_F(FdbPolicyTest, SlowMovesAndThoseInsideAHostAreNotDamped) {
  Make({});
  Learn(Key(1), kV1);
  Learn(Key(2), kV1, FdbOrigin::kLocalLearned);
  for (int i = 1; i <= 40; ++i) {
    clock_.Advance(absl::Seconds(45));  // five in 180 s, the first of which is just over
    ASSERT_EQ(Learn(Key(1), i % 2 == 0 ? kV1 : kV2), Learned::kMoved) << i;
    ASSERT_EQ(Learn(Key(2), i % 2 == 0 ? kV1 : kV2, FdbOrigin::kLocalLearned), Learned::kMoved) << i;
    ASSERT_EQ(Learn(Key(2), i % 2 == 0 ? kV2 : kV1, FdbOrigin::kLocalLearned), Learned::kMoved) << i;
    ASSERT_EQ(Learn(Key(2), i % 2 == 0 ? kV1 : kV2, FdbOrigin::kLocalLearned), Learned::kMoved) << i;
  }
  EXPECT_EQ(fdb_->counters().froze, 0u);
}

TEST_F(FdbPolicyTest, AMoveForWhichThereIsNoRoomDoesNotCount) {
  Make({});
  fdb_->SetVPortPolicy(kV1, {.limit = 1, .sticky = true});
  Learn(Key(9), kV1, FdbOrigin::kLocalLearned);
  Learn(Key(1), kV2);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(Learn(Key(1), kV1, FdbOrigin::kLocalLearned), Learned::kLimit) << i;
  EXPECT_EQ(fdb_->counters().learn_limited, 10u);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
  EXPECT_EQ(Learn(Key(1), kV3), Learned::kMoved) << "where there is room";
}

TEST_F(FdbPolicyTest, AMoveToTheSameAgentIsForgiven) {
  Make({});
  Learn(Key(1), kV1);
  for (uint32_t i = 2; i < 20; ++i) {
    ASSERT_EQ(Learn(Key(1), VPortId(i)), Learned::kMoved);
    fdb_->ForgiveMove(Key(1));
  }
  for (uint32_t i = 1; i < 5; ++i) Learn(Key(1), VPortId(i));
  ASSERT_EQ(Learn(Key(1), VPortId(5)), Learned::kPinned);
  fdb_->ForgiveMove(Key(1));
  EXPECT_EQ(Learn(Key(1), VPortId(5)), Learned::kMoved) << "the last one was none either";
}

TEST_F(FdbPolicyTest, AFreezeLastsUntilItIsThawedIfSoConfigured) {
  Make({.damping = {.action = MoveDamper::Action::kFreezeUntilThawed, .moves = 2}});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  ASSERT_EQ(Learn(Key(1), kV1), Learned::kPinned);
  clock_.Advance(absl::Hours(100));
  fdb_->Age();
  EXPECT_EQ(Find(Key(1)), kV2);
  EXPECT_FALSE(fdb_->Thaw(Key(2)));
  EXPECT_TRUE(fdb_->Thaw(Key(1)));
  EXPECT_EQ(Learn(Key(1), kV1), Learned::kMoved);
}

TEST_F(FdbPolicyTest, AWarningLetsItMove) {
  Make({.damping = {.action = MoveDamper::Action::kWarn, .moves = 3}});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  Learn(Key(1), kV1);
  Events();
  const Fdb::LearnResult third = fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned);
  EXPECT_EQ(third.what, Learned::kMoved);
  EXPECT_TRUE(third.damped);
  EXPECT_THAT(Events(), ElementsAre(Kind::kFlapping, Kind::kMoved));
  EXPECT_EQ(fdb_->counters().flapping, 1u);
  EXPECT_FALSE(fdb_->Learn(Key(1), kV1, FdbOrigin::kRemoteLearned).damped) << "counted anew";
}

TEST_F(FdbPolicyTest, AFreezeEndsWithItsEntry) {
  Make({.damping = {.moves = 2}});
  for (uint64_t i = 1; i <= 3; ++i) {
    Learn(Key(i), kV1);
    Learn(Key(i), kV2);
    ASSERT_EQ(Learn(Key(i), kV1), Learned::kPinned);
  }
  ASSERT_TRUE(fdb_->AddStatic(Key(1), kV3).ok());
  EXPECT_EQ(fdb_->frozen().size(), 2u);
  fdb_->FlushVPort(kV2);
  EXPECT_EQ(Learn(Key(2), kV1), Learned::kNew);
  fdb_->Age();
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
}

// Who makes many MACs move must not make another's moves forgotten.
TEST(MoveDamperTest, ForgetsThoseThatMovedLeast) {
  MoveDamper damper({.moves = 5});
  const absl::Time start = absl::FromUnixSeconds(1000);
  int64_t second = 0;
  const auto now = [&] { return start + absl::Milliseconds(++second); };
  for (int i = 0; i < 2; ++i) damper.OnMove(Key(7), kV1, kV2, now());
  for (int i = 0; i < 2; ++i) {
    for (uint64_t other = 100; other < 30'000; ++other) damper.OnMove(Key(other), kV1, kV2, now());
    damper.OnMove(Key(7), kV1, kV2, now());
  }
  EXPECT_EQ(damper.OnMove(Key(7), kV1, kV2, now()), MoveDamper::Verdict::kFreeze);
}

TEST(MoveDamperTest, FreezesNoMoreThanItRemembers) {
  MoveDamper damper({.moves = 2, .most_frozen = 3});
  const absl::Time now = absl::FromUnixSeconds(1000);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(damper.OnMove(Key(i), kV1, kV2, now), MoveDamper::Verdict::kMove);
    EXPECT_EQ(damper.OnMove(Key(i), kV2, kV1, now), i < 3 ? MoveDamper::Verdict::kFreeze : MoveDamper::Verdict::kWarn);
  }
  EXPECT_EQ(damper.Due(now + absl::Seconds(179)).size(), 0u);
  EXPECT_EQ(damper.Due(now + absl::Seconds(180)).size(), 3u);
}

// ---- Precedence -------------------------------------------------------------------------------------------------------

PeerAddress Peer(uint32_t qpn) { return {Gid(), Qpn(qpn)}; }

// Each origin against each.
TEST_F(FdbPolicyTest, AnOriginGivesWayToStrongerOnesOnly) {
  const FdbOrigin kOrigins[] = {FdbOrigin::kRemoteLearned, FdbOrigin::kAnnounced, FdbOrigin::kLocalLearned, FdbOrigin::kManager,
                                FdbOrigin::kStatic};
  const auto claim = [this](FdbKey key, VPortId vport, FdbOrigin origin, uint64_t sequence) {
    switch (origin) {
      case FdbOrigin::kRemoteLearned:
      case FdbOrigin::kLocalLearned:
        fdb_->Learn(key, vport, origin);
        break;
      case FdbOrigin::kAnnounced:
        fdb_->Announce(key, vport, {sequence, Peer(vport.value())});
        break;
      case FdbOrigin::kManager:
        fdb_->AddManaged(key, vport).IgnoreError();
        break;
      case FdbOrigin::kStatic:
        fdb_->AddStatic(key, vport).IgnoreError();
        break;
    }
  };
  const auto learned = [](FdbOrigin origin) {
    return origin == FdbOrigin::kRemoteLearned || origin == FdbOrigin::kLocalLearned;
  };
  for (FdbOrigin first : kOrigins) {
    for (FdbOrigin second : kOrigins) {
      Make({});
      claim(Key(1), kV1, first, 1);
      claim(Key(1), kV2, second, 2);
      // Among learned ones, managed ones and later announcements the newest wins; a static one is the first's.
      const bool newest = (learned(first) && learned(second)) || (first == second && first != FdbOrigin::kStatic);
      const VPortId expected = newest || second > first ? kV2 : kV1;
      EXPECT_EQ(Find(Key(1)), expected) << static_cast<int>(first) << " then " << static_cast<int>(second);
    }
  }
}

TEST_F(FdbPolicyTest, TheLaterAnnouncementWinsThenTheLowerAddress) {
  Make({});
  EXPECT_EQ(fdb_->Announce(Key(1), kV1, {10, Peer(5)}).what, Learned::kNew);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2, {9, Peer(1)}).what, Learned::kOverruled);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2, {10, Peer(6)}).what, Learned::kOverruled);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2, {10, Peer(4)}).what, Learned::kMoved);
  EXPECT_EQ(fdb_->Announce(Key(1), kV1, {11, Peer(9)}).what, Learned::kMoved);
  EXPECT_EQ(fdb_->Announce(Key(1), kV1, {8, Peer(9)}).what, Learned::kKnown) << "an old one of its own says nothing new";
  EXPECT_EQ(fdb_->Announce(Key(1), kV2, {10, Peer(1)}).what, Learned::kOverruled);
  EXPECT_EQ(fdb_->counters().announce_refused, 3u);
  EXPECT_FALSE(fdb_->Withdraw(Key(1), kV2)) << "not its own";
  EXPECT_TRUE(fdb_->Withdraw(Key(1), kV1));
  EXPECT_EQ(fdb_->Announce(Key(1), kV2, {1, Peer(1)}).what, Learned::kNew) << "nothing is left of the former claim";
  EXPECT_EQ(fdb_->Announce(FdbKey(Vid(0), MacAddr::Broadcast()), kV2, {1, Peer(1)}).what, Learned::kGroup);
}

TEST_F(FdbPolicyTest, AnAnnouncementThatTakesAMacOverKeepsToTheVPortsLimit) {
  Make({.limit = 100, .vport_limit = 3});
  LearnMany(1, 3, kV1);
  LearnMany(11, 3, kV2);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2, {1, Peer(1)}).what, Learned::kMoved);
  EXPECT_EQ(fdb_->Held(kV2), 3u);
  EXPECT_EQ(Known(11, 2, kV2), 2u) << "the newest went";
  ASSERT_TRUE(fdb_->AddStatic(Key(21), kV3).ok() && fdb_->AddStatic(Key(22), kV3).ok() && fdb_->AddStatic(Key(23), kV3).ok());
  EXPECT_EQ(fdb_->Announce(Key(2), kV3, {1, Peer(1)}).what, Learned::kLimit);
  EXPECT_EQ(Find(Key(2)), kV1);
}

// ---- Events -----------------------------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, EachChangeIsTold) {
  Make({.ageing = absl::Seconds(10), .limit = 3});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  ASSERT_TRUE(fdb_->AddStatic(Key(2), kV1).ok());
  ASSERT_TRUE(fdb_->RemoveStatic(Key(2)).ok());
  fdb_->Announce(Key(3), kV1, {1, Peer(1)});
  fdb_->Withdraw(Key(3), kV1);
  EXPECT_THAT(Events(),
              ElementsAre(Kind::kLearned, Kind::kMoved, Kind::kFixed, Kind::kUnfixed, Kind::kAnnounced, Kind::kFlushed));
  LearnMany(10, 3, kV2);
  EXPECT_THAT(Events(), ElementsAre(Kind::kLearned, Kind::kLearned, Kind::kEvicted, Kind::kLearned));
  clock_.Advance(absl::Seconds(11));
  fdb_->Age();
  EXPECT_THAT(Events(), ElementsAre(Kind::kAged, Kind::kAged, Kind::kAged));
  EXPECT_EQ(last_event_.nanoseconds, static_cast<uint64_t>(absl::ToUnixNanos(clock_.Now())));
}

TEST(EventRingTest, WhoComesLateIsToldHowManyAreLost) {
  struct Event {
    uint64_t number;
  };
  EventRing<Event, 8> ring;
  uint64_t next = 0;
  std::vector<Event> events;
  EXPECT_EQ(ring.Read(&next, 100, &events), 0u);
  EXPECT_THAT(events, IsEmpty());
  for (uint64_t i = 0; i < 20; ++i) ring.Write({i});
  EXPECT_EQ(ring.Read(&next, 3, &events), 12u);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].number, 12u);
  EXPECT_EQ(ring.Read(&next, 100, &events), 0u);
  EXPECT_EQ(events.back().number, 19u);
  EXPECT_EQ(next, 20u);
  next = 1000;
  EXPECT_EQ(ring.Read(&next, 100, &events), 0u);
  EXPECT_EQ(next, 20u) << "not been yet";
}

// Beside a writer each event is read whole, in order, once, or counted as lost.
TEST(EventRingTest, ReadersBesideAWriterMissNothingUnnoticed) {
  struct Event {
    uint64_t number, copy, other;
  };
  EventRing<Event, 64> ring;
  constexpr uint64_t kEvents = 200'000;
  std::thread writer([&ring] {
    for (uint64_t i = 0; i < kEvents; ++i) ring.Write({i, i, ~i});
  });
  uint64_t next = 0, read = 0, lost = 0;
  std::vector<Event> events;
  while (next < kEvents) {
    const uint64_t before = next;
    const uint64_t missed = ring.Read(&next, 16, &events);
    lost += missed;
    read += events.size();
    ASSERT_EQ(next - before, missed + events.size());
    for (const Event& event : events) ASSERT_TRUE(event.number == event.copy && event.other == ~event.number);
    for (size_t i = 1; i < events.size(); ++i) ASSERT_GT(events[i].number, events[i - 1].number);
    events.clear();
  }
  writer.join();
  EXPECT_EQ(read + lost, kEvents);
}

}  // namespace
}  // namespace eoib
