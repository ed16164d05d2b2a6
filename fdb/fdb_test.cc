#include "fdb/fdb.h"

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "fdb/fdb_policy_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Learned = Fdb::Learned;

class FdbTest : public testing::Test {
 protected:
  VPortId Find(FdbKey key) { return Find(&fdb_, key); }
  static VPortId Find(Fdb* fdb, FdbKey key) {
    VPortId out;
    fdb->Find({&key, 1}, {&out, 1});
    return out;
  }
  bool Refresh(FdbKey key, VPortId vport) {
    uint16_t stale;
    return fdb_.Refresh({&key, 1}, {&vport, 1}, {&stale, 1}) == 0;
  }
  Learned Learn(FdbKey key, VPortId vport, FdbOrigin origin = FdbOrigin::kRemoteLearned) {
    return fdb_.Learn(key, vport, origin).what;
  }

  FakeClock clock_;
  Fdb fdb_{{absl::Seconds(300), 4}, &clock_};
};

TEST_F(FdbTest, LearnsMovesAndKnows) {
  EXPECT_EQ(Learn(Key(1), kV1), Learned::kNew);
  EXPECT_EQ(Learn(Key(1), kV1), Learned::kKnown);
  EXPECT_EQ(Find(Key(1)), kV1);
  const Fdb::LearnResult moved = fdb_.Learn(Key(1), kV2, FdbOrigin::kRemoteLearned);
  EXPECT_EQ(moved.what, Learned::kMoved);
  EXPECT_EQ(moved.previous, kV1);
  EXPECT_EQ(Find(Key(1)), kV2);
}

TEST_F(FdbTest, VlansDoNotShareEntries) {
  Learn(Key(1, 10), kV1);
  EXPECT_TRUE(Find(Key(1, 20)).IsNone());
  EXPECT_EQ(Find(Key(1, 10)), kV1);
}

TEST_F(FdbTest, RestoredEntryAgesOnAndDisplacesNothing) {
  clock_.Advance(absl::Hours(1));
  Learn(Key(1), kV2);
  EXPECT_FALSE(fdb_.Restore(Key(1), kV1, FdbOrigin::kLocalLearned, absl::ZeroDuration()));
  EXPECT_EQ(Find(Key(1)), kV2);
  EXPECT_TRUE(fdb_.Restore(Key(2), kV1, FdbOrigin::kLocalLearned, absl::Seconds(200)));
  EXPECT_EQ(Find(Key(2)), kV1);
  EXPECT_EQ(fdb_.Get(Key(2))->age, absl::Seconds(200));
  EXPECT_FALSE(fdb_.Restore(FdbKey(Vid(0), MacAddr::Broadcast()), kV1, FdbOrigin::kLocalLearned,
                            absl::ZeroDuration()));

  // A claim is no sign of the station; a frame is.
  EXPECT_EQ(fdb_.Claim(Key(2), kV1).what, Learned::kKnown);
  EXPECT_EQ(fdb_.Get(Key(2))->age, absl::Seconds(200));
  clock_.Advance(absl::Seconds(102));
  EXPECT_TRUE(Find(Key(2)).IsNone());
  EXPECT_TRUE(fdb_.Restore(Key(2), kV1, FdbOrigin::kLocalLearned, absl::Seconds(200)));
  EXPECT_TRUE(Refresh(Key(2), kV1));
  clock_.Advance(absl::Seconds(102));
  EXPECT_EQ(Find(Key(2)), kV1);
  EXPECT_EQ(Learn(Key(2), kV2), Learned::kMoved) << "it counts as learned";
}

TEST_F(FdbTest, RestoredEntriesKeepTheLimits) {
  for (uint64_t i = 1; i <= 10; ++i)
    fdb_.Restore(Key(i), kV1, FdbOrigin::kRemoteLearned, absl::ZeroDuration());
  EXPECT_EQ(fdb_.size(), 4u);
}

TEST_F(FdbTest, GroupAddressesAreNotLearned) {
  EXPECT_EQ(Learn(FdbKey(Vid(0), MacAddr::Broadcast()), kV1), Learned::kGroup);
  EXPECT_EQ(Learn(FdbKey(Vid(0), MacAddr()), kV1), Learned::kGroup);
  EXPECT_EQ(fdb_.AddStatic(FdbKey(Vid(0), MacAddr::Broadcast()), kV1).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fdb_.size(), 0u);
}

TEST_F(FdbTest, EntriesExpireWithoutAge) {
  Learn(Key(1), kV1);
  clock_.Advance(absl::Seconds(300));
  EXPECT_EQ(Find(Key(1)), kV1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Find(Key(1)).IsNone());
  EXPECT_THAT(fdb_.Dump(), IsEmpty());
  EXPECT_EQ(fdb_.size(), 1u);
  EXPECT_EQ(fdb_.Age(), 1u);
  EXPECT_EQ(fdb_.size(), 0u);
}

TEST_F(FdbTest, RefreshKeepsEntriesYoung) {
  Learn(Key(1), kV1);
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(absl::Seconds(299));
    EXPECT_TRUE(Refresh(Key(1), kV1));
  }
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_FALSE(Refresh(Key(1), kV2)) << "heard from elsewhere: that is for Learn";
}

TEST_F(FdbTest, AgeingZeroNeverAges) {
  Fdb fdb({absl::ZeroDuration(), 4}, &clock_);
  fdb.Learn(Key(1), kV1, FdbOrigin::kRemoteLearned);
  clock_.Advance(absl::Hours(10000));
  EXPECT_EQ(fdb.Age(), 0u);
  EXPECT_EQ(Find(&fdb, Key(1)), kV1);
}

struct PrecedenceRow {
  const char* description;
  FdbOrigin holder, claim;
  bool taken;
};

TEST_F(FdbTest, Precedence) {
  const PrecedenceRow rows[] = {
      {"remote over remote: a move", FdbOrigin::kRemoteLearned, FdbOrigin::kRemoteLearned, true},
      {"remote over local: a move away", FdbOrigin::kLocalLearned, FdbOrigin::kRemoteLearned, true},
      {"local over remote: a move here", FdbOrigin::kRemoteLearned, FdbOrigin::kLocalLearned, true},
      {"remote over announced: no", FdbOrigin::kAnnounced, FdbOrigin::kRemoteLearned, false},
      {"local over announced: control decides", FdbOrigin::kAnnounced, FdbOrigin::kLocalLearned,
       false},
      {"remote over claimed: control decides", FdbOrigin::kClaimed, FdbOrigin::kRemoteLearned,
       false},
      {"local over claimed: a move inside the host", FdbOrigin::kClaimed, FdbOrigin::kLocalLearned,
       true},
  };
  uint64_t mac = 100;
  for (const PrecedenceRow& row : rows) {
    Fdb fdb({}, &clock_);
    fdb.Learn(Key(++mac), kV1, row.holder);
    const Fdb::LearnResult result = fdb.Learn(Key(mac), kV2, row.claim);
    EXPECT_EQ(result.what, row.taken ? Learned::kMoved : Learned::kOverruled) << row.description;
    EXPECT_EQ(result.previous, kV1) << row.description;
    EXPECT_EQ(Find(&fdb, Key(mac)), row.taken ? kV2 : kV1) << row.description;
  }
}

TEST_F(FdbTest, StaticEntriesNeitherAgeNorMove) {
  ASSERT_TRUE(fdb_.AddStatic(Key(1), kV1).ok());
  EXPECT_EQ(Learn(Key(1), kV2, FdbOrigin::kLocalLearned), Learned::kOverruled);
  EXPECT_EQ(Learn(Key(1), kV1, FdbOrigin::kLocalLearned), Learned::kKnown);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(fdb_.Age(), 0u);
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_EQ(fdb_.Flush(), 0u);
  EXPECT_EQ(fdb_.AddStatic(Key(1), kV2).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fdb_.RemoveStatic(Key(1)).ok());
  EXPECT_EQ(fdb_.RemoveStatic(Key(1)).code(), absl::StatusCode::kNotFound);
}

TEST_F(FdbTest, FlushFlushesAllButStaticEntries) {
  Learn(Key(1), kV1);
  Learn(Key(2), kV2);
  ASSERT_TRUE(fdb_.AddStatic(Key(3), kV2).ok());
  EXPECT_EQ(fdb_.Flush(), 2u);
  EXPECT_EQ(Find(Key(3)), kV2);
  EXPECT_EQ(fdb_.size(), 1u);
}

TEST_F(FdbTest, FlushLearnedFlushesOneVPort) {
  Learn(Key(1), kV1);
  Learn(Key(2), kV2);
  ASSERT_TRUE(fdb_.AddStatic(Key(3), kV2).ok());
  EXPECT_EQ(fdb_.FlushLearned(kV2), 1u);
  EXPECT_EQ(Find(Key(1)), kV1);
  EXPECT_EQ(Find(Key(2)), VPortId::None());
  EXPECT_EQ(Find(Key(3)), kV2);
}

TEST_F(FdbTest, DumpIsSortedAndHasAges) {
  Learn(Key(2, 10), kV1);
  clock_.Advance(absl::Seconds(5));
  Learn(Key(1, 10), kV1);
  Learn(Key(9, 0), kV2);
  std::vector<FdbKey> keys;
  for (const Fdb::Entry& entry : fdb_.Dump()) keys.push_back(entry.key);
  EXPECT_THAT(keys, ElementsAre(Key(9, 0), Key(1, 10), Key(2, 10)));
  EXPECT_EQ(fdb_.Dump()[2].age, absl::Seconds(5));
}

// Random learning, refreshing, ageing and lookups against a simple, slow model.
TEST(FdbModelTest, RandomOperations) {
  struct Row {
    VPortId vport;
    int64_t seen;
    bool fixed;
  };
  FakeClock clock;
  constexpr int64_t kAgeing = 50;
  Fdb fdb({.ageing = absl::Seconds(kAgeing), .damping = {.action = MoveDamper::Action::kOff}},
          &clock);
  std::map<FdbKey, Row> model;
  const uint64_t seed = SeedForTest();
  SCOPED_TRACE(seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  int64_t now = 0;
  for (int step = 0; step < 40000; ++step) {
    const FdbKey key = Key(random() % 80, random() % 2);
    const VPortId vport(static_cast<uint32_t>(random() % 4));
    const auto row = model.find(key);
    const bool present = row != model.end();
    const bool live = present && (row->second.fixed || now - row->second.seen <= kAgeing);
    switch (random() % 6) {
      case 0:
      case 1: {
        const Learned what =
            fdb.Learn(key, vport,
                      random() % 2 ? FdbOrigin::kLocalLearned : FdbOrigin::kRemoteLearned)
                .what;
        Learned expected = Learned::kNew;
        if (key.mac().IsZero())
          expected = Learned::kGroup;
        else if (live && row->second.vport == vport)
          expected = Learned::kKnown;
        else if (live && row->second.fixed)
          expected = Learned::kOverruled;
        else if (live)
          expected = Learned::kMoved;
        ASSERT_EQ(what, expected);
        if (expected == Learned::kNew || expected == Learned::kKnown ||
            expected == Learned::kMoved) {
          model[key] = {vport, now, live && row->second.fixed};
        }
        break;
      }
      case 2: {
        uint16_t stale;
        const bool fresh = fdb.Refresh({&key, 1}, {&vport, 1}, {&stale, 1}) == 0;
        ASSERT_EQ(fresh, present && row->second.vport == vport);
        if (fresh) row->second.seen = now;
        break;
      }
      case 3:
        clock.Advance(absl::Seconds(1));
        ++now;
        break;
      case 4:
        if (random() % 20 == 0) {
          ASSERT_EQ(fdb.Age(), std::erase_if(model, [&](const auto& entry) {
                      return !entry.second.fixed && now - entry.second.seen > kAgeing;
                    }));
        }
        break;
      case 5:
        if (random() % 40 == 0 && (!present || !row->second.fixed || row->second.vport == vport)) {
          ASSERT_TRUE(fdb.AddStatic(key, vport).ok());
          model[key] = {vport, now, true};
        }
        break;
    }
    VPortId found;
    fdb.Find({&key, 1}, {&found, 1});
    const auto after = model.find(key);
    const bool known =
        after != model.end() && (after->second.fixed || now - after->second.seen <= kAgeing);
    ASSERT_EQ(found, known ? after->second.vport : VPortId::None())
        << key.ToString() << " at step " << step;
    ASSERT_EQ(fdb.size(), model.size());
  }
}

TEST_F(FdbTest, AgedEntryIsNewElsewhereAndIsReclaimedFirst) {
  for (uint64_t i = 1; i <= 4; ++i) Learn(Key(i), kV1, FdbOrigin::kLocalLearned);
  clock_.Advance(absl::Seconds(301));
  EXPECT_EQ(Learn(Key(1), kV2), Learned::kNew) << "nothing was known of it any more";
  EXPECT_EQ(Learn(Key(5), kV2), Learned::kNew);
  EXPECT_EQ(fdb_.counters().evicted, 0u);
  fdb_.Age();
  EXPECT_EQ(fdb_.counters().aged, 4u);
  EXPECT_EQ(Find(Key(5)), kV2);
  EXPECT_EQ(fdb_.size(), 2u);
}

// Workers look up, refresh and learn while control ages and flushes. A MAC is only ever behind the
// vPort of its own number, so any other answer is a misplaced entry. ThreadSanitizer finds data
// races.
TEST(FdbThreadsTest, WorkersBesideControl) {
  constexpr uint32_t kMacs = 300;
  FakeClock clock;
  Fdb fdb({absl::Seconds(5), kMacs / 2}, &clock);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> known{0}, wrong{0};
  auto work = [&](uint32_t seed) {
    std::mt19937 random(seed);
    std::array<FdbKey, 32> keys;
    std::array<VPortId, 32> vports, found;
    std::array<uint16_t, 32> stale;
    while (!stop.load()) {
      for (size_t i = 0; i < keys.size(); ++i) {
        vports[i] = VPortId(random() % kMacs + 1);
        keys[i] = Key(vports[i].value(), vports[i].value() % 3);
      }
      const size_t stale_count = fdb.Refresh(keys, vports, absl::MakeSpan(stale));
      for (size_t i = 0; i < stale_count; ++i)
        fdb.Learn(keys[stale[i]], vports[stale[i]], FdbOrigin::kRemoteLearned);
      fdb.Find(keys, absl::MakeSpan(found));
      for (size_t i = 0; i < keys.size(); ++i) {
        known += found[i] == vports[i];
        wrong += found[i] != vports[i] && !found[i].IsNone();
      }
    }
  };
  uint64_t next = 0;
  std::vector<FdbEvent> events;
  std::thread workers[] = {std::thread(work, 1), std::thread(work, 2)};
  for (int i = 0; i < 500 || known.load() < 1000; ++i) {
    clock.Advance(absl::Seconds(1));
    fdb.Age();
    if (i % 10 == 0) fdb.FlushLearned(VPortId(i % kMacs + 1));
    if (i % 100 == 0) fdb.Flush();
    if (i % 7 == 0) fdb.FlushVlan(Vid(static_cast<uint16_t>(i % 3)));
    fdb.events().Read(&next, 1000, &events);
    for (const FdbEvent& event : events) {
      const bool learned = event.kind == FdbEvent::Kind::kLearned;
      wrong += learned && event.to.value() != (event.key.mac().ToUint64() & 0xffff);
    }
    events.clear();
    for (const Fdb::Entry& entry : fdb.Dump())
      wrong += entry.vport.value() != (entry.key.mac().ToUint64() & 0xffff);
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace eoib
