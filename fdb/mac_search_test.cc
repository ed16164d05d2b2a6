// What a search answers if the table changes at the worst moment: between two of its looks at a key, or when the slot of a key
// has been found, and what is in it has not been read yet.
#include <functional>
#include <utility>
#include <vector>

#include "fdb/mac_search_plain.h"
#include "fdb/mac_table_test_fixture.h"

namespace eoib {
namespace {

// The plain kind, interrupted at one look at one key.
struct Interrupted : Plain {
  static inline uint64_t key = MacBucket::kNoKey;
  static inline const MacBucket* home = nullptr;  // where it was looked for first
  static inline int looks = 0;                    // at `key` so far
  static inline int before_look = 0;              // which comes after the interruption; 0: none
  static inline int after_look = 0;               // which comes before it
  static inline std::function<void(const MacBucket&)> interrupt;

  static uint32_t Match(const MacBucket& bucket, uint64_t of) {
    if (of != key) return Plain::Match(bucket, of);
    if (++looks == 1) home = &bucket;
    if (looks == before_look) interrupt(bucket);
    const uint32_t match = Plain::Match(bucket, of);
    if (looks == after_look) interrupt(bucket);
    return match;
  }
  static void Reset() {
    key = MacBucket::kNoKey;
    looks = before_look = after_look = 0;
    interrupt = nullptr;
  }
};

constexpr MacSearch kInterrupted = SearchOf<Interrupted>("interrupted");
constexpr uint64_t kKeys = 2 * kSearchChunk;
constexpr uint64_t kOthers = 2000;  // keys that make the table as full as one that grows
FdbKey Other(uint64_t i) { return Key(3'000'000 + i); }
constexpr CohortId kStranger(1000);

// With the parameter, the table has changed since a batch was placed, so that each bucket's head is looked at.
class MacSearchTest : public testing::TestWithParam<bool> {
 protected:
  MacSearchTest() {
    for (uint32_t i = 0; i < kKeys; ++i) {
      keys_.push_back(Key(i));
      EXPECT_TRUE(table_.SetCohort(CohortId(i), VPortId(i)) && table_.Put(keys_[i], {CohortId(i), 1}));
    }
    EXPECT_TRUE(table_.SetCohort(kStranger, VPortId(5555)));
    for (uint64_t i = 0; i < kOthers; ++i) EXPECT_TRUE(table_.Put(Other(i), {kStranger, 1}));
    // Changes enough for a resizing under way to end.
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(table_.Put(Other(kOthers), {kStranger, 1}) && table_.Erase(Other(kOthers)));
  }
  ~MacSearchTest() override { Interrupted::Reset(); }

  // What is found of all keys, in two whole batches, with key `which` of the first interrupted as told.
  std::vector<VPortId> FindInterrupted(size_t which, int before_look, int after_look,
                                       std::function<void(const MacBucket&)> interrupt) {
    std::vector<VPortId> found(kKeys);
    MacLookup lookup(&table_);
    lookup.Ask({keys_.data(), kSearchChunk}, AgeLimit(), {found.data(), kSearchChunk});
    EXPECT_TRUE(!GetParam() || table_.Put(keys_[kKeys - 1], {CohortId(kKeys - 1), 1}));
    Interrupted::Reset();
    Interrupted::key = keys_[which].packed();
    Interrupted::before_look = before_look;
    Interrupted::after_look = after_look;
    Interrupted::interrupt = std::move(interrupt);
    lookup.Ask({keys_.data() + kSearchChunk, kSearchChunk}, AgeLimit(), {found.data() + kSearchChunk, kSearchChunk});
    lookup.Finish();
    return found;
  }
  void ExpectAllFound(const std::vector<VPortId>& found) {
    for (uint32_t i = 0; i < kKeys; ++i) EXPECT_EQ(found[i], VPortId(i));
  }
  // One of the first batch that is not in its primary bucket.
  size_t KeyAway() {
    size_t away = kSearchChunk;
    for (size_t i = 0; i < kSearchChunk; ++i) {
      FindInterrupted(i, 2, 0, [&](const MacBucket&) { away = i; });
      if (away == i) break;
    }
    return away;
  }

  MacTable table_{{.seed = 7, .search = &kInterrupted}};
  std::vector<FdbKey> keys_;
};

INSTANTIATE_TEST_SUITE_P(Heads, MacSearchTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Looked" : "Quiet"; });

TEST_P(MacSearchTest, AnswersWhatIsThereIfNothingHappens) {
  ExpectAllFound(FindInterrupted(3, 0, 1, [](const MacBucket&) {}));
  EXPECT_EQ(Interrupted::looks, 1);
}

TEST_P(MacSearchTest, DoesNotTakeAnotherKeysEntryForOne) {
  constexpr size_t kGone = 3;
  const std::vector<VPortId> found = FindInterrupted(kGone, 0, 1, [&](const MacBucket& bucket) {
    const int slot = bucket.SlotOf(keys_[kGone].packed());
    ASSERT_GE(slot, 0);
    ASSERT_TRUE(table_.Erase(keys_[kGone]));
    for (uint64_t i = 0; i < 1000 && bucket.Key(slot) == MacBucket::kNoKey; ++i) {
      ASSERT_TRUE(table_.Put(Key(2'000'000 + i), {kStranger, 1}));
    }
    ASSERT_NE(bucket.Key(slot), MacBucket::kNoKey);
  });
  EXPECT_TRUE(found[kGone].IsNone() || found[kGone] == VPortId(kGone)) << found[kGone].value();
  for (uint32_t i = 0; i < kKeys; ++i) EXPECT_TRUE(i == kGone || found[i] == VPortId(i)) << i;
  // Without heads, what changed is seen at the end, and all of it is looked at once more.
  EXPECT_EQ(Interrupted::looks > 1, !GetParam());
}

TEST_P(MacSearchTest, FindsWhatMovesWhenTheTableGrowsAndShrinks) {
  for (size_t which = 0; which < kSearchChunk; which += 3) {
    ExpectAllFound(FindInterrupted(which, 0, 1, [&](const MacBucket&) {
      for (uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(table_.Put(Key(2'000'000 + i), {kStranger, 1}));
      for (uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(table_.Erase(Key(2'000'000 + i)));
    }));
  }
}

// It was not at home when that was looked at, and no longer away when the other bucket is.
TEST_P(MacSearchTest, FindsWhatComesHomeMeanwhile) {
  const size_t away = KeyAway();
  ASSERT_LT(away, kSearchChunk) << "another seed has one";
  const std::vector<VPortId> found = FindInterrupted(away, 2, 0, [&](const MacBucket& secondary) {
    const uint64_t key = keys_[away].packed();
    ASSERT_GE(secondary.SlotOf(key), 0);
    for (int slot = 0; slot < MacBucket::kSlots && secondary.SlotOf(key) >= 0; ++slot) {
      table_.Erase(FdbKey::FromPacked(Interrupted::home->Key(slot)));
    }
    ASSERT_LT(secondary.SlotOf(key), 0);
  });
  EXPECT_EQ(found[away], VPortId(static_cast<uint32_t>(away)));
}

}  // namespace
}  // namespace eoib
