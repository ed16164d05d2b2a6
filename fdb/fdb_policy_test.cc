// FDB policy: precedence, sticky entries, freezes, flushing, ageing and events. Eviction is in
// fdb_eviction_test.cc.
#include <vector>

#include "fdb/fdb_policy_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Learned = Fdb::Learned;
using Kind = FdbEvent::Kind;

// ---- Flushing and ageing ------------------------------------------------------------------------

TEST_F(FdbPolicyTest, FlushTakesEffectAtOnceAndReclaimsLater) {
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
  for (uint64_t i = 1; i <= 20'000; ++i)
    ASSERT_EQ(Find(Key(i, i % 4)), i % 4 == 3 ? kV2 : VPortId::None()) << i;
  uint16_t stale;
  const FdbKey flushed = Key(1, 1);
  EXPECT_EQ(fdb_->Refresh({&flushed, 1}, {&kV2, 1}, {&stale, 1}), 1u) << "it must be learned again";
  EXPECT_EQ(Learn(flushed, kV2), Learned::kNew);
  EXPECT_EQ(Find(flushed), kV2);
  for (int second = 0; second < 30; ++second) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(fdb_->Age(), 0u) << "flushed entries did not age out";
  }
  EXPECT_EQ(fdb_->size(), 5001u);
  LearnMany(50'001, 3000, kV3);  // changes shrink the table in small steps
  EXPECT_LT(fdb_->memory_bytes(), full * 3 / 4);
}

// A port that goes down is flushed, and learns as many MACs again before Age() reclaims the former
// ones.
TEST_F(FdbPolicyTest, FlushedEntriesDoNotPileUp) {
  constexpr size_t kLimit = 1000;
  Make({.limit = kLimit});
  for (uint64_t round = 0; round < 20; ++round) {
    LearnMany(1 + round * kLimit, kLimit, kV1);
    EXPECT_EQ(fdb_->size(), kLimit);
    ASSERT_LE(fdb_->table().size(), 2 * kLimit) << round;
    fdb_->FlushLearned(kV1);
  }
  EXPECT_EQ(fdb_->counters().evicted, 0u);
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
    // After that the table shrinks, and the rest is reclaimed soon.
    if (i < 10) most = std::max(most, now);
  }
  EXPECT_EQ(aged, 40'000u);
  EXPECT_LE(most, 40'000u / 20) << "a thirtieth each second";
  EXPECT_EQ(fdb_->counters().aged, 80'000u);
}

// This must hold wherever in the table the last call of Age stopped.
TEST_F(FdbPolicyTest, AgeVisitsWholeTableAfterAPause) {
  Make({.ageing = absl::Seconds(300), .limit = 40'000});
  LearnMany(1, 40'000, kV1);
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(1));
    fdb_->Age();
  }
  clock_.Advance(absl::Seconds(300));
  EXPECT_EQ(fdb_->Age(), 40'000u);
}

// Ticks wrap after 65,536. To an agent that was stopped that long, the oldest entries must not look
// young.
TEST_F(FdbPolicyTest, NothingSurvivesALongStop) {
  Make({});
  Learn(Key(1), kV1);
  clock_.Advance(absl::Seconds(65536));
  fdb_->Age();
  EXPECT_TRUE(Find(Key(1)).IsNone());
  EXPECT_EQ(fdb_->size(), 0u);
}

// Half that time is enough to make entries look young that had aged out and were not reclaimed.
TEST_F(FdbPolicyTest, AgedEntriesDoNotReturnAfterALongStop) {
  Make({.ageing = absl::Seconds(300), .limit = 40'000});
  LearnMany(1, 40'000, kV1);
  for (int i = 0; i < 310; ++i) {
    clock_.Advance(absl::Seconds(1));
    fdb_->Age();
  }
  ASSERT_NE(fdb_->size(), 0u) << "not yet reclaimed";
  clock_.Advance(absl::Seconds(32'460));
  fdb_->Age();
  EXPECT_EQ(fdb_->size(), 0u);
}

TEST_F(FdbPolicyTest, RelearnedEntryCountsAsAged) {
  Make({.ageing = absl::Seconds(300)});
  Learn(Key(1), kV1);
  clock_.Advance(absl::Seconds(301));
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kNew);
  EXPECT_THAT(Events(), ElementsAre(Kind::kLearned, Kind::kAged, Kind::kLearned));
  EXPECT_EQ(fdb_->counters().aged, 1u);
  clock_.Advance(absl::Seconds(301));
  ASSERT_TRUE(fdb_->AddStatic(Key(1), kV3).ok());
  EXPECT_THAT(Events(), ElementsAre(Kind::kAged, Kind::kFixed));
  EXPECT_TRUE(last_event_.from.IsNone());
}

// ---- Sticky -------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, StickyEntriesStay) {
  Make({.limit = 100});
  fdb_->SetVPortPolicy(kV1, {.limit = 2, .sticky = true});
  EXPECT_EQ(Learn(Key(1), kV1, FdbOrigin::kLocalLearned), Learned::kNew);
  EXPECT_EQ(Learn(Key(2), kV2), Learned::kNew);
  EXPECT_EQ(Learn(Key(2), kV1, FdbOrigin::kLocalLearned), Learned::kMoved)
      << "from then on it stays";
  EXPECT_EQ(Learn(Key(3), kV1, FdbOrigin::kLocalLearned), Learned::kLimit)
      << "nothing that is kept gives way";
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

TEST_F(FdbPolicyTest, RefusalEventsAreRateLimited) {
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

// ---- Moves --------------------------------------------------------------------------------------

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
  EXPECT_EQ(fifth.damped, Fdb::Damped::kFrozen);
  EXPECT_THAT(Events(), ElementsAre(Kind::kFrozen));
  EXPECT_EQ(last_event_.from, kV1);
  EXPECT_EQ(last_event_.to, kV2);
  EXPECT_EQ(Find(Key(1)), kV1) << "at home";
  EXPECT_TRUE(fdb_->Dump()[0].frozen);
  EXPECT_EQ(fdb_->frozen().at(Key(1)).at, kV1);
  EXPECT_EQ(fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned).damped, Fdb::Damped::kNo)
      << "it is told once";
  EXPECT_EQ(fdb_->counters().froze, 1u);
  EXPECT_EQ(fdb_->counters().frozen_refused, 1u);
  // The freeze lasts that long, even if the MAC is silent for more than the ageing time.
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

// Two vPorts of attackers take turns with a victim's MAC, so that the victim's own frame is the
// fifth move. kV1 is the victim's, with and without being a local port.
class HijackTest : public FdbPolicyTest, public testing::WithParamInterface<FdbOrigin> {
 protected:
  void SetUp() override {
    Make({});
    Speak();
    Events();
  }
  Learned Speak() { return Learn(Key(1), kV1, GetParam()); }
  void StealFourTimes() {
    for (VPortId thief : {kV2, kV3, kV2, kV3}) ASSERT_EQ(Learn(Key(1), thief), Learned::kMoved);
  }
  void ExpectHeldAtHome() {
    EXPECT_EQ(Find(Key(1)), kV1);
    EXPECT_EQ(fdb_->counters().froze, 1u);
    EXPECT_EQ(fdb_->frozen().at(Key(1)).at, kV1);
    const Fdb::Entry entry = fdb_->Dump()[0];
    EXPECT_TRUE(entry.frozen);
    EXPECT_EQ(entry.origin, GetParam());
    for (VPortId thief : {kV2, kV3}) EXPECT_EQ(Learn(Key(1), thief), Learned::kPinned);
    uint16_t stale;
    const FdbKey key = Key(1);
    EXPECT_EQ(fdb_->Refresh({&key, 1}, {&kV1, 1}, {&stale, 1}), 0u)
        << "the victim is known at its home";
    clock_.Advance(absl::Seconds(180));
    fdb_->Age();
    EXPECT_EQ(Find(Key(1)), kV1) << "also when the freeze is over";
  }
};
INSTANTIATE_TEST_SUITE_P(VictimsOwnAgentAndAThirdOne, HijackTest,
                         testing::Values(FdbOrigin::kLocalLearned, FdbOrigin::kRemoteLearned));

TEST_P(HijackTest, VictimsOwnFrameIsTheFifthMove) {
  StealFourTimes();
  Events();
  const Fdb::LearnResult fifth = fdb_->Learn(Key(1), kV1, GetParam());
  EXPECT_EQ(fifth.what, Learned::kPinned);
  EXPECT_EQ(fifth.damped, Fdb::Damped::kFrozen);
  EXPECT_EQ(fifth.previous, kV3);
  EXPECT_THAT(Events(), ElementsAre(Kind::kMoved, Kind::kFrozen));
  EXPECT_EQ(last_event_.from, kV1);
  EXPECT_EQ(last_event_.to, kV3) << "which took it, and not the victim, which took it back";
  ExpectHeldAtHome();
}

TEST_P(HijackTest, VictimIsSilent) {
  StealFourTimes();
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kPinned);
  EXPECT_EQ(fdb_->frozen().at(Key(1)).claimant, kV2);
  ExpectHeldAtHome();
}

TEST_P(HijackTest, HomeMoved) {
  clock_.Advance(absl::Seconds(10));
  ASSERT_EQ(Learn(Key(1), VPortId(4)), Learned::kMoved);  // the guest migrates
  clock_.Advance(absl::Seconds(180));
  StealFourTimes();
  EXPECT_EQ(Learn(Key(1), VPortId(4)), Learned::kPinned);
  EXPECT_EQ(Find(Key(1)), VPortId(4));
}

// A home that is gone must not attract traffic that it cannot receive.
TEST_P(HijackTest, HomeLeftTheFabric) {
  for (VPortId thief : {kV2, kV3, kV2}) Learn(Key(1), thief);
  fdb_->FlushLearned(kV1);
  for (VPortId thief : {kV3, kV2, kV3, kV2})
    EXPECT_EQ(Learn(Key(1), thief), Learned::kMoved) << "the count starts again";
  EXPECT_EQ(Learn(Key(1), kV3), Learned::kPinned);
  EXPECT_EQ(Find(Key(1)), kV2) << "where it was when its home left";
  fdb_->FlushLearned(kV2);
  fdb_->FlushSticky(kV2);
  EXPECT_TRUE(Find(Key(1)).IsNone()) << "and what is frozen at a home goes with it";
  EXPECT_EQ(Speak(), Learned::kNew);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
}

TEST_P(HijackTest, HomeIsFull) {
  fdb_->SetVPortPolicy(kV1, {.limit = 1});
  StealFourTimes();
  Learn(Key(2), kV1, GetParam());
  EXPECT_EQ(Speak(), Learned::kPinned);
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_TRUE(Find(Key(2)).IsNone()) << "the newest made room";
  EXPECT_EQ(fdb_->Held(kV1), 1u);
}

TEST_P(HijackTest, HomeWithoutRoomHoldsNothing) {
  fdb_->SetVPortPolicy(kV1, {.limit = 1});
  StealFourTimes();
  ASSERT_TRUE(fdb_->AddStatic(Key(2), kV1).ok());
  const Fdb::LearnResult fifth = fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned);
  EXPECT_EQ(fifth.what, Learned::kMoved);
  EXPECT_EQ(fifth.damped, Fdb::Damped::kFlapping);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
}

// Beyond the limit of frozen MACs the MAC also stays at home, while the attackers go on.
TEST_P(HijackTest, FreezeLimitIsReached) {
  Make({.damping = {.most_frozen = 0}});
  Speak();
  StealFourTimes();
  Events();
  for (int i = 0; i < 100; ++i) {
    const Fdb::LearnResult stolen =
        fdb_->Learn(Key(1), i % 2 == 0 ? kV2 : kV3, FdbOrigin::kRemoteLearned);
    EXPECT_EQ(stolen.what, Learned::kPinned);
    EXPECT_EQ(stolen.damped, Fdb::Damped::kFlapping);
    EXPECT_EQ(Find(Key(1)), kV1);
  }
  EXPECT_EQ(Events().size(), 1u + 10u) << "the move home, and some of the attempts";
  EXPECT_EQ(fdb_->counters().flapping, 100u);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
  EXPECT_FALSE(fdb_->Dump()[0].frozen);
  clock_.Advance(absl::Seconds(180));
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kMoved) << "a guest that migrates";
}

// An attacker that speaks first becomes the first home. Even then the station's own agent does not
// keep the MAC away from the station.
TEST_F(FdbPolicyTest, FreezeDoesNotKeepStationFromItsOwnPort) {
  Make({});
  const auto speak = [this](VPortId port) { return Learn(Key(1), port, FdbOrigin::kLocalLearned); };
  for (VPortId thief : {kV2, kV3, kV2, kV3, kV2}) Learn(Key(1), thief);
  ASSERT_EQ(Learn(Key(1), kV3), Learned::kPinned);
  EXPECT_EQ(speak(kV1), Learned::kMoved);
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
  for (int i = 0; i < 100; ++i) {
    Learn(Key(1), i % 2 == 0 ? kV2 : kV3);
    EXPECT_NE(speak(kV1), Learned::kPinned);
    ASSERT_EQ(Find(Key(1)), kV1) << i;
  }
  // The same holds for another port of the host, to which the station moved.
  Make({});
  speak(kV1);
  for (VPortId thief : {kV2, kV3, kV2, kV3, kV2}) Learn(Key(1), thief);
  ASSERT_TRUE(fdb_->Dump()[0].frozen);
  EXPECT_EQ(speak(VPortId(4)), Learned::kMoved);
  EXPECT_EQ(Find(Key(1)), VPortId(4));
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
}

TEST_F(FdbPolicyTest, FreezesAreCountedByClaimantGid) {
  const auto gid_of = [](VPortId vport) {
    return Gid::FromPrefixAndGuid(0, Guid(vport == kV1 ? 1 : 2));
  };
  Make({.limit = 1000, .damping = {.moves = 2, .most_frozen_per_gid = 2}, .gid_of = gid_of});
  const auto steal = [this](uint64_t mac, VPortId thief) {
    Learn(Key(mac), kV1);
    Learn(Key(mac), thief);
    return fdb_->Learn(Key(mac), kV1, FdbOrigin::kRemoteLearned).damped;
  };
  EXPECT_EQ(steal(1, kV2), Fdb::Damped::kFrozen);
  EXPECT_EQ(steal(2, kV3), Fdb::Damped::kFrozen);
  EXPECT_EQ(steal(3, kV2), Fdb::Damped::kFlapping);
  for (uint64_t mac : {1, 2, 3}) EXPECT_EQ(Find(Key(mac)), kV1);
  EXPECT_TRUE(fdb_->Thaw(Key(1)));
  EXPECT_EQ(steal(4, kV3), Fdb::Damped::kFrozen);
}

TEST_F(FdbPolicyTest, NumbersOfHomesAndClaimantsAreNotReused) {
  Make({.damping = {.moves = 2}});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  EXPECT_THAT(fdb_->DampedVPorts(), ElementsAre(kV1));
  Learn(Key(1), kV1);
  EXPECT_THAT(fdb_->DampedVPorts(), ElementsAre(kV2));
  fdb_->Thaw(Key(1));
  EXPECT_THAT(fdb_->DampedVPorts(), IsEmpty());
}

TEST_F(FdbPolicyTest, SlowAndHostInternalMovesAreNotDamped) {
  Make({});
  Learn(Key(1), kV1);
  Learn(Key(2), kV1, FdbOrigin::kLocalLearned);
  for (int i = 1; i <= 40; ++i) {
    // Five moves in 180 s, of which the first has just left the window.
    clock_.Advance(absl::Seconds(45));
    ASSERT_EQ(Learn(Key(1), i % 2 == 0 ? kV1 : kV2), Learned::kMoved) << i;
    ASSERT_EQ(Learn(Key(2), i % 2 == 0 ? kV1 : kV2, FdbOrigin::kLocalLearned), Learned::kMoved)
        << i;
    ASSERT_EQ(Learn(Key(2), i % 2 == 0 ? kV2 : kV1, FdbOrigin::kLocalLearned), Learned::kMoved)
        << i;
    ASSERT_EQ(Learn(Key(2), i % 2 == 0 ? kV1 : kV2, FdbOrigin::kLocalLearned), Learned::kMoved)
        << i;
  }
  EXPECT_EQ(fdb_->counters().froze, 0u);
}

TEST_F(FdbPolicyTest, MoveWithoutRoomIsNotCounted) {
  Make({});
  fdb_->SetVPortPolicy(kV1, {.limit = 1, .sticky = true});
  Learn(Key(9), kV1, FdbOrigin::kLocalLearned);
  Learn(Key(1), kV2);
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(Learn(Key(1), kV1, FdbOrigin::kLocalLearned), Learned::kLimit) << i;
  EXPECT_EQ(fdb_->counters().learn_limited, 10u);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
  EXPECT_EQ(Learn(Key(1), kV3), Learned::kMoved) << "where there is room";
}

TEST_F(FdbPolicyTest, FreezeUntilThawed) {
  Make({.damping = {.action = MoveDamper::Action::kFreezeUntilThawed, .moves = 2}});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  ASSERT_EQ(Learn(Key(1), kV1), Learned::kPinned);
  clock_.Advance(absl::Hours(100));
  fdb_->Age();
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_FALSE(fdb_->Thaw(Key(2)));
  EXPECT_TRUE(fdb_->Thaw(Key(1)));
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kMoved);
}

TEST_F(FdbPolicyTest, WarnActionMovesTheMac) {
  Make({.damping = {.action = MoveDamper::Action::kWarn, .moves = 3}});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  Learn(Key(1), kV1);
  Events();
  const Fdb::LearnResult third = fdb_->Learn(Key(1), kV2, FdbOrigin::kRemoteLearned);
  EXPECT_EQ(third.what, Learned::kMoved);
  EXPECT_EQ(third.damped, Fdb::Damped::kFlapping);
  EXPECT_THAT(Events(), ElementsAre(Kind::kFlapping, Kind::kMoved));
  EXPECT_EQ(fdb_->counters().flapping, 1u);
  EXPECT_EQ(fdb_->Learn(Key(1), kV1, FdbOrigin::kRemoteLearned).damped, Fdb::Damped::kNo)
      << "the count starts again";
}

TEST_F(FdbPolicyTest, FreezeEndsWithItsEntry) {
  Make({.damping = {.moves = 2}});
  for (uint64_t i = 1; i <= 3; ++i) {
    Learn(Key(i), kV1);
    Learn(Key(i), kV2);
    ASSERT_EQ(Learn(Key(i), kV1), Learned::kPinned);
  }
  ASSERT_TRUE(fdb_->AddStatic(Key(1), kV3).ok());
  EXPECT_EQ(fdb_->frozen().size(), 2u);
  fdb_->FlushSticky(kV1);
  EXPECT_EQ(Learn(Key(2), kV2), Learned::kNew);
  fdb_->Age();
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
}

// ---- Precedence ---------------------------------------------------------------------------------

// Each origin against each other one.
TEST_F(FdbPolicyTest, PrecedenceOfOrigins) {
  using enum FdbOrigin;
  const FdbOrigin kOrigins[] = {kRemoteLearned, kLocalLearned, kClaimed, kAnnounced, kStatic};
  const auto enter = [this](VPortId vport, FdbOrigin origin) {
    if (IsLearned(origin)) fdb_->Learn(Key(1), vport, origin);
    if (origin == kClaimed) fdb_->Claim(Key(1), vport);
    if (origin == kAnnounced) fdb_->Announce(Key(1), vport);
    if (origin == kStatic) fdb_->AddStatic(Key(1), vport).IgnoreError();
  };
  for (FdbOrigin first : kOrigins) {
    for (FdbOrigin second : kOrigins) {
      Make({});
      enter(kV1, first);
      enter(kV2, second);
      // What the agents agree on displaces all but static entries. What is heard displaces learned
      // entries, and a local station may move inside its host.
      const bool displaces = first != kStatic && (!IsLearned(second) || IsLearned(first) ||
                                                  (first == kClaimed && second == kLocalLearned));
      EXPECT_EQ(Find(Key(1)), displaces ? kV2 : kV1)
          << static_cast<int>(first) << " then " << static_cast<int>(second);
    }
  }
}

TEST_F(FdbPolicyTest, AnnouncedEntriesStayUntilWithdrawn) {
  Make({.ageing = absl::Seconds(10)});
  EXPECT_EQ(fdb_->Announce(Key(1), kV1).what, Learned::kNew);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2).what, Learned::kMoved);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2).what, Learned::kKnown);
  EXPECT_EQ(fdb_->Claim(Key(2), kV3).what, Learned::kNew);
  EXPECT_EQ(Learn(Key(1), kV3, FdbOrigin::kLocalLearned), Learned::kOverruled);
  EXPECT_EQ(fdb_->counters().overruled, 1u);
  clock_.Advance(absl::Seconds(12));
  fdb_->Age();
  EXPECT_EQ(Find(Key(1)), kV2);
  EXPECT_EQ(Find(Key(2)), VPortId::None()) << "a claimed one ages";
  Learn(Key(3), kV1);
  EXPECT_FALSE(fdb_->Withdraw(Key(3))) << "it was learned";
  EXPECT_FALSE(fdb_->FlushMac(Key(3), kV2)) << "it is not there";
  EXPECT_TRUE(fdb_->FlushMac(Key(3), kV1));
  EXPECT_FALSE(fdb_->Get(Key(3)).has_value());
  ASSERT_TRUE(fdb_->Get(Key(1)).has_value());
  EXPECT_EQ(fdb_->Get(Key(1))->origin, FdbOrigin::kAnnounced);
  EXPECT_TRUE(fdb_->Withdraw(Key(1)));
  EXPECT_EQ(Find(Key(1)), VPortId::None());
  EXPECT_EQ(fdb_->Announce(FdbKey(Vid(0), MacAddr::Broadcast()), kV2).what, Learned::kGroup);
}

TEST_F(FdbPolicyTest, AnnouncementEndsAFreezeButNotAStickyEntry) {
  Make({.damping = {.moves = 2}});
  fdb_->SetVPortPolicy(kV3, {.sticky = true});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  ASSERT_EQ(Learn(Key(1), kV1), Learned::kPinned);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2).what, Learned::kMoved);
  EXPECT_THAT(fdb_->frozen(), IsEmpty());
  EXPECT_EQ(Find(Key(1)), kV2);
  Learn(Key(2), kV3, FdbOrigin::kLocalLearned);
  EXPECT_EQ(fdb_->Announce(Key(2), kV2).what, Learned::kPinned);
  EXPECT_EQ(fdb_->counters().announce_refused, 1u);
  EXPECT_FALSE(fdb_->FlushMac(Key(2), kV3));
  EXPECT_EQ(Find(Key(2)), kV3);
}

TEST_F(FdbPolicyTest, AnnouncedMoveRespectsVPortLimit) {
  Make({.limit = 100, .vport_limit = 3});
  LearnMany(1, 3, kV1);
  LearnMany(11, 3, kV2);
  EXPECT_EQ(fdb_->Announce(Key(1), kV2).what, Learned::kMoved);
  EXPECT_EQ(fdb_->Held(kV2), 3u);
  EXPECT_EQ(Known(11, 2, kV2), 2u) << "the newest went";
  ASSERT_TRUE(fdb_->AddStatic(Key(21), kV3).ok() && fdb_->AddStatic(Key(22), kV3).ok() &&
              fdb_->AddStatic(Key(23), kV3).ok());
  EXPECT_EQ(fdb_->Announce(Key(2), kV3).what, Learned::kLimit);
  EXPECT_EQ(Find(Key(2)), kV1);
}

TEST_F(FdbPolicyTest, DumpInParts) {
  Make({});
  for (uint64_t i = 1; i <= 1000; ++i) Learn(Key(i * 0x9e37'79b1 % 1009, i % 3), kV1);
  std::vector<FdbKey> all, keys;
  for (const Fdb::Entry& entry : fdb_->Dump()) all.push_back(entry.key);
  ASSERT_EQ(all.size(), 1000u);
  absl::optional<FdbKey> after;
  do {
    const Fdb::Part part = fdb_->DumpPart(after, 64);
    ASSERT_LT(part.entries.size(), 64u + 32) << "of the last bucket all";
    ASSERT_TRUE(part.entries.size() >= 64 || !part.next.has_value());
    ASSERT_TRUE(std::is_sorted(part.entries.begin(), part.entries.end(),
                               [](auto& a, auto& b) { return a.key < b.key; }));
    for (const Fdb::Entry& entry : part.entries) keys.push_back(entry.key);
    after = part.next;
    Learn(Key(2000 + keys.size()), kV2);
    fdb_->FlushMac(Key(2000 + keys.size()), kV2);
  } while (after.has_value());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(keys, all);
}

// The table grows and shrinks between the parts.
TEST_F(FdbPolicyTest, PartsHaveEachEntryOnceAlthoughTheTableIsResized) {
  Make({.limit = 100'000});
  for (uint64_t i = 1; i <= 1000; ++i) Learn(Key(i), kV1);
  std::vector<FdbKey> keys;
  absl::optional<FdbKey> after;
  uint64_t next = 10'000;
  for (int parts = 0; parts == 0 || after.has_value(); ++parts) {
    const Fdb::Part part = fdb_->DumpPart(after, 100);
    for (const Fdb::Entry& entry : part.entries) {
      if (entry.vport == kV1) keys.push_back(entry.key);
    }
    after = part.next;
    if (parts % 4 == 3) {
      fdb_->FlushLearned(kV2);
      while (fdb_->size() > 1000) clock_.Advance(absl::Seconds(1)), fdb_->Age();
    } else {
      for (int i = 0; i < 5000; ++i) Learn(Key(next++), kV2);
    }
  }
  std::sort(keys.begin(), keys.end());
  ASSERT_EQ(keys.size(), 1000u);
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

// ---- Events -------------------------------------------------------------------------------------

TEST_F(FdbPolicyTest, EachChangeMakesAnEvent) {
  Make({.ageing = absl::Seconds(10), .limit = 3});
  Learn(Key(1), kV1);
  Learn(Key(1), kV2);
  ASSERT_TRUE(fdb_->AddStatic(Key(2), kV1).ok());
  ASSERT_TRUE(fdb_->RemoveStatic(Key(2)).ok());
  fdb_->Announce(Key(3), kV1);
  fdb_->Withdraw(Key(3));
  EXPECT_THAT(Events(), ElementsAre(Kind::kLearned, Kind::kMoved, Kind::kFixed, Kind::kUnfixed,
                                    Kind::kAnnounced, Kind::kFlushed));
  LearnMany(10, 3, kV2);
  EXPECT_THAT(Events(),
              ElementsAre(Kind::kLearned, Kind::kLearned, Kind::kEvicted, Kind::kLearned));
  clock_.Advance(absl::Seconds(11));
  fdb_->Age();
  EXPECT_THAT(Events(), ElementsAre(Kind::kAged, Kind::kAged, Kind::kAged));
  EXPECT_EQ(last_event_.nanoseconds, static_cast<uint64_t>(absl::ToUnixNanos(clock_.Now())));
}

TEST_F(FdbPolicyTest, NotesComeBetweenTheEvents) {
  Make({});
  Learn(Key(1), kV1);
  fdb_->Note(77);
  EXPECT_THAT(Events(), ElementsAre(Kind::kLearned, Kind::kNote));
  EXPECT_EQ(last_event_.count, 77u);
  EXPECT_EQ(last_event_.nanoseconds, static_cast<uint64_t>(absl::ToUnixNanos(clock_.Now())));
}

// A ring large enough for late readers would be most of a small FDB's memory.
TEST_F(FdbPolicyTest, WatchKeepsTheLastEvents) {
  Fdb fdb({}, &clock_);
  const auto learn = [&](uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i)
      fdb.Learn(Key(i), kV1, FdbOrigin::kRemoteLearned);
  };
  std::vector<FdbEvent> events;
  learn(1, 1000);
  uint64_t next = 0;
  EXPECT_EQ(fdb.events().Read(&next, 10'000, &events), 1000u - 32);
  EXPECT_EQ(events.size(), 32u);
  fdb.Watch();
  fdb.Watch();
  learn(1001, 5000);
  EXPECT_EQ(fdb.events().Read(&next, 10'000, &events), 0u);
  ASSERT_EQ(events.size(), 32u + 5000);
  EXPECT_EQ(events[31].key, Key(1000));
  EXPECT_EQ(events[32].key, Key(1001));
}

}  // namespace
}  // namespace eoib
