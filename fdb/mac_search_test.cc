// Changes the table at the worst moments of a search: between two looks at a key, or after its slot
// was found and before the content of the slot is read.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fdb/mac_table_test_fixture.h"

namespace eoib {
namespace {

// Calls `interrupt` at one look at one key.
struct InterruptedMatcher {
  static inline uint64_t key = MacBucket::kNoKey;
  static inline const MacBucket* home = nullptr;  // where it was looked for first
  static inline int looks = 0;                    // at `key` so far
  static inline int before_look = 0;              // which comes after the interruption; 0: none
  static inline int after_look = 0;               // which comes before it
  static inline std::function<void(const MacBucket&)> interrupt;

  static size_t SlotOf(const MacBucket& bucket, uint64_t of, uint32_t* absent) {
    if (of != key) return BucketMatcher::SlotOf(bucket, of, absent);
    if (++looks == 1) home = &bucket;
    if (looks == before_look) interrupt(bucket);
    const size_t slot = BucketMatcher::SlotOf(bucket, of, absent);
    if (looks == after_look) interrupt(bucket);
    return slot;
  }
  static void Reset() {
    key = MacBucket::kNoKey;
    looks = before_look = after_look = 0;
    interrupt = nullptr;
  }
};

constexpr uint64_t kKeys = 2 * kSearchBatch;
constexpr uint64_t kOthers = 2000;  // keys that make the table as full as one that grows
FdbKey Other(uint64_t i) { return NthKey(3'000'000 + i); }
constexpr FlushGroupId kStranger(1000);

class MacSearchTest : public testing::Test {
 protected:
  // Makes a table with kKeys keys, each behind a vPort of its own, and others.
  void Fill(uint64_t seed) {
    table_ = std::make_unique<MacTable>(MacTable::Options{.seed = seed});
    keys_.clear();
    for (uint32_t i = 0; i < kKeys; ++i) {
      keys_.push_back(NthKey(i));
      EXPECT_TRUE(table_->SetGroupVPort(FlushGroupId(i), VPortId(i)) &&
                  table_->Put(keys_[i], {FlushGroupId(i), 1}));
    }
    EXPECT_TRUE(table_->SetGroupVPort(kStranger, VPortId(5555)));
    for (uint64_t i = 0; i < kOthers; ++i) EXPECT_TRUE(table_->Put(Other(i), {kStranger, 1}));
    // Changes enough for a resizing under way to end.
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(table_->Put(Other(kOthers), {kStranger, 1}) && table_->Erase(Other(kOthers)));
    }
  }
  ~MacSearchTest() override { InterruptedMatcher::Reset(); }

  // Looks up all keys in two whole batches, and calls `interrupt` at a look at key `which` of the
  // first batch.
  std::vector<VPortId> FindInterrupted(size_t which, int before_look, int after_look,
                                       std::function<void(const MacBucket&)> interrupt) {
    std::vector<VPortId> found(kKeys);
    BasicMacLookup<InterruptedMatcher> lookup(table_.get());
    lookup.Ask({keys_.data(), kSearchBatch}, AgeLimit(), {found.data(), kSearchBatch});
    InterruptedMatcher::Reset();
    InterruptedMatcher::key = keys_[which].packed();
    InterruptedMatcher::before_look = before_look;
    InterruptedMatcher::after_look = after_look;
    InterruptedMatcher::interrupt = std::move(interrupt);
    lookup.Ask({keys_.data() + kSearchBatch, kSearchBatch}, AgeLimit(),
               {found.data() + kSearchBatch, kSearchBatch});
    lookup.Finish();
    return found;
  }
  void ExpectAllFound(const std::vector<VPortId>& found) {
    for (uint32_t i = 0; i < kKeys; ++i) EXPECT_EQ(found[i], VPortId(i));
  }
  // Fills the table, and returns a key of the first batch that is in its home bucket, or one that
  // is away from it.
  size_t FillWithKey(bool away) {
    for (uint64_t seed = 7; seed < 100; ++seed) {
      Fill(seed);
      for (size_t i = 0; i < kSearchBatch; ++i) {
        bool is_away = false;  // only a key that is away has a second look
        FindInterrupted(i, 2, 0, [&](const MacBucket&) { is_away = true; });
        if (is_away == away) return i;
      }
    }
    ADD_FAILURE() << "no such key";
    return 0;
  }

  std::unique_ptr<MacTable> table_;
  std::vector<FdbKey> keys_;
};

TEST_F(MacSearchTest, FindsAllKeysWithoutAnInterruption) {
  const size_t home = FillWithKey(/*away=*/false);
  ExpectAllFound(FindInterrupted(home, 0, 1, [](const MacBucket&) {}));
  EXPECT_EQ(InterruptedMatcher::looks, 1);
}

TEST_F(MacSearchTest, ReplacedEntryIsNotTakenForTheKey) {
  const size_t gone = FillWithKey(/*away=*/false);
  const std::vector<VPortId> found = FindInterrupted(gone, 0, 1, [&](const MacBucket& bucket) {
    const int slot = bucket.SlotOf(keys_[gone].packed());
    ASSERT_GE(slot, 0);
    ASSERT_TRUE(table_->Erase(keys_[gone]));
    for (uint64_t i = 0; i < 100'000 && bucket.Key(slot) == MacBucket::kNoKey; ++i) {
      ASSERT_TRUE(table_->Put(NthKey(2'000'000 + i), {kStranger, 1}));
    }
    ASSERT_NE(bucket.Key(slot), MacBucket::kNoKey);
  });
  EXPECT_TRUE(found[gone].IsNone() || found[gone] == VPortId(gone)) << found[gone].value();
  for (uint32_t i = 0; i < kKeys; ++i) EXPECT_TRUE(i == gone || found[i] == VPortId(i)) << i;
}

TEST_F(MacSearchTest, FindsEntriesThatResizingMoves) {
  Fill(7);
  for (size_t which = 0; which < kSearchBatch; which += 3) {
    ExpectAllFound(FindInterrupted(which, 0, 1, [&](const MacBucket&) {
      for (uint64_t i = 0; i < 3000; ++i)
        ASSERT_TRUE(table_->Put(NthKey(2'000'000 + i), {kStranger, 1}));
      for (uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(table_->Erase(NthKey(2'000'000 + i)));
    }));
  }
}

// It was not at home when that was looked at, and no longer away when the other bucket is.
TEST_F(MacSearchTest, FindsEntryThatComesHomeBetweenTwoLooks) {
  const size_t away = FillWithKey(/*away=*/true);
  const std::vector<VPortId> found = FindInterrupted(away, 2, 0, [&](const MacBucket& secondary) {
    const uint64_t key = keys_[away].packed();
    ASSERT_GE(secondary.SlotOf(key), 0);
    for (int slot = 0; slot < MacBucket::kSlots && secondary.SlotOf(key) >= 0; ++slot) {
      table_->Erase(FdbKey::FromPacked(InterruptedMatcher::home->Key(slot)));
    }
    ASSERT_LT(secondary.SlotOf(key), 0);
  });
  EXPECT_EQ(found[away], VPortId(static_cast<uint32_t>(away)));
}

}  // namespace
}  // namespace eoib
