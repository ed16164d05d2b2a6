// What a search answers if the table changes at the worst moment: when the slot of a key has been found, and what is in it has
// not been read yet.
#include <functional>
#include <utility>
#include <vector>

#include "fdb/mac_search_plain.h"
#include "fdb/mac_table_test_fixture.h"

namespace eoib {
namespace {

// The plain kind, interrupted once at `key`.
struct Interrupted : Plain {
  static inline uint64_t key = MacBucket::kNoKey;
  static inline std::function<void(const MacBucket&)> interrupt;

  static uint32_t Match(const MacBucket& bucket, uint64_t of) {
    const uint32_t match = Plain::Match(bucket, of);
    if (of == key && match != 0) {
      key = MacBucket::kNoKey;
      interrupt(bucket);
    }
    return match;
  }
};

constexpr MacSearch kInterrupted = SearchOf<Interrupted>("interrupted");
constexpr uint64_t kKeys = 2 * kSearchChunk;
constexpr CohortId kStranger(1000);

class MacSearchTest : public testing::TestWithParam<bool> {
 protected:
  MacSearchTest() {
    for (uint32_t i = 0; i < kKeys; ++i) {
      keys_.push_back(Key(i));
      EXPECT_TRUE(table_.SetCohort(CohortId(i), VPortId(i)) && table_.Put(keys_[i], {CohortId(i), 1}));
    }
    EXPECT_TRUE(table_.SetCohort(kStranger, VPortId(5555)));
  }
  // What is found if `interrupt` runs while key `which` is looked for. The batches are whole; with the parameter, the table has
  // changed since they were placed, so that each bucket's head is looked at.
  std::vector<VPortId> FindInterrupted(size_t which, std::function<void(const MacBucket&)> interrupt) {
    std::vector<VPortId> found(kKeys);
    Interrupted::interrupt = std::move(interrupt);
    MacLookup lookup(&table_);
    lookup.Ask({keys_.data(), kSearchChunk}, AgeLimit(), {found.data(), kSearchChunk});
    EXPECT_TRUE(!GetParam() || table_.Put(Key(1'000'000), {kStranger, 1}));
    Interrupted::key = keys_[which].packed();
    lookup.Ask({keys_.data() + kSearchChunk, kSearchChunk}, AgeLimit(), {found.data() + kSearchChunk, kSearchChunk});
    EXPECT_EQ(Interrupted::key, MacBucket::kNoKey) << "not at home, so nobody was interrupted";
    lookup.Finish();
    return found;
  }

  MacTable table_{{.seed = 7, .search = &kInterrupted}};
  std::vector<FdbKey> keys_;
};

INSTANTIATE_TEST_SUITE_P(Heads, MacSearchTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Looked" : "Quiet"; });

TEST_P(MacSearchTest, AnswersWhatIsThereIfNothingHappens) {
  const std::vector<VPortId> found = FindInterrupted(3, [](const MacBucket&) {});
  for (uint32_t i = 0; i < kKeys; ++i) EXPECT_EQ(found[i], VPortId(i));
}

TEST_P(MacSearchTest, DoesNotTakeAnotherKeysEntryForOne) {
  constexpr size_t kGone = 3;
  const std::vector<VPortId> found = FindInterrupted(kGone, [&](const MacBucket& bucket) {
    const int slot = bucket.SlotOf(keys_[kGone].packed());
    ASSERT_TRUE(table_.Erase(keys_[kGone]));
    for (uint64_t i = 0; i < 1000 && bucket.Key(slot) == MacBucket::kNoKey; ++i) {
      ASSERT_TRUE(table_.Put(Key(2'000'000 + i), {kStranger, 1}));
    }
    ASSERT_NE(bucket.Key(slot), MacBucket::kNoKey);
  });
  EXPECT_TRUE(found[kGone].IsNone() || found[kGone] == VPortId(kGone)) << found[kGone].value();
  for (uint32_t i = 0; i < kKeys; ++i) EXPECT_TRUE(i == kGone || found[i] == VPortId(i)) << i;
}

TEST_P(MacSearchTest, FindsWhatMovesWhenTheTableGrowsAndShrinks) {
  const std::vector<VPortId> found = FindInterrupted(3, [&](const MacBucket&) {
    for (uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(table_.Put(Key(2'000'000 + i), {kStranger, 1}));
    for (uint64_t i = 0; i < 1500; ++i) ASSERT_TRUE(table_.Erase(Key(2'000'000 + 2 * i)));
  });
  for (uint32_t i = 0; i < kKeys; ++i) EXPECT_EQ(found[i], VPortId(i));
}

}  // namespace
}  // namespace eoib
