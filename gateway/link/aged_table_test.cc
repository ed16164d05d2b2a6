#include "gateway/link/aged_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

using Table = AgedTable<int, int>;

TEST(AgedTableTest, UnconfirmedOnesGoFirst) {
  Table table(2);
  absl::Time now = absl::UnixEpoch();
  table.Add(1, 10, now);
  table.Confirm(1, now);
  table.Add(2, 20, now += absl::Seconds(1));
  ASSERT_NE(table.Victim(), nullptr);
  EXPECT_EQ(table.Victim()->key, 2) << "younger, but unconfirmed";
  table.MakeRoom();
  EXPECT_EQ(table.Victim(), nullptr);
  table.Add(3, 30, now += absl::Seconds(1));
  table.Confirm(3, now);
  EXPECT_EQ(table.Victim()->key, 1) << "all are confirmed";
  table.Hear(1, now += absl::Seconds(1));
  EXPECT_EQ(table.Victim()->key, 3);
}

TEST(AgedTableTest, HearOrAddReplacesTheVictimOfAFullTable) {
  Table table(2);
  absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(table.HearOrAdd(1, now, 10)->value, 10);
  EXPECT_EQ(table.HearOrAdd(2, now += absl::Seconds(1), 20)->value, 20);
  EXPECT_EQ(table.HearOrAdd(1, now += absl::Seconds(1), 11)->value, 10) << "known";
  EXPECT_EQ(table.HearOrAdd(3, now += absl::Seconds(1), 30)->value, 30);
  EXPECT_EQ(table.Find(2), nullptr) << "it was silent for longest";
}

TEST(AgedTableTest, Ages) {
  Table table(4);
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(table.oldest(), absl::InfiniteFuture());
  table.Add(1, 10, start);
  table.Add(2, 20, start + absl::Seconds(2));
  table.Confirm(1, start + absl::Seconds(1));
  EXPECT_EQ(table.oldest(), start + absl::Seconds(1));
  EXPECT_EQ(table.SilentSince(start), nullptr);
  EXPECT_EQ(table.SilentSince(start + absl::Seconds(1))->key, 1);
  EXPECT_TRUE(table.Erase(1));
  EXPECT_FALSE(table.Erase(1));
  EXPECT_EQ(table.oldest(), start + absl::Seconds(2));
}

// Compares with a map in which the victim is found by a full search.
TEST(AgedTableTest, Model) {
  std::mt19937_64 random(SeedForTest());
  struct Modelled {
    int value;
    absl::Time heard;
    bool confirmed;
  };
  constexpr size_t kLimit = 16;
  Table table(kLimit);
  std::map<int, Modelled> model;
  absl::Time now = absl::UnixEpoch();
  for (int step = 0; step < 20000; ++step) {
    now += absl::Seconds(1);
    const int key = static_cast<int>(random() % 40);
    const auto known = model.find(key);
    switch (random() % 5) {
      case 0:
      case 1:
        if (known != model.end()) break;
        if (model.size() == kLimit) {
          const auto victim =
              std::min_element(model.begin(), model.end(), [](const auto& a, const auto& b) {
                return std::tie(a.second.confirmed, a.second.heard) <
                       std::tie(b.second.confirmed, b.second.heard);
              });
          ASSERT_EQ(table.Victim()->key, victim->first);
          model.erase(victim);
        } else {
          ASSERT_EQ(table.Victim(), nullptr);
        }
        table.MakeRoom();
        table.Add(key, step, now);
        model[key] = {step, now, false};
        break;
      case 2: {
        const auto* const entry = table.Hear(key, now);
        ASSERT_EQ(entry != nullptr, known != model.end());
        if (known != model.end()) known->second.heard = now;
        break;
      }
      case 3:
        ASSERT_EQ(table.Confirm(key, now) != nullptr, known != model.end());
        if (known != model.end()) known->second.heard = now, known->second.confirmed = true;
        break;
      case 4:
        ASSERT_EQ(table.Erase(key), known != model.end());
        model.erase(key);
        break;
    }
    ASSERT_EQ(table.size(), model.size());
    absl::Time oldest = absl::InfiniteFuture();
    for (const auto& [k, expected] : model) {
      const auto* const entry = std::as_const(table).Find(k);
      ASSERT_NE(entry, nullptr);
      ASSERT_EQ(std::tie(entry->value, entry->heard, entry->confirmed),
                std::tie(expected.value, expected.heard, expected.confirmed));
      oldest = std::min(oldest, expected.heard);
    }
    ASSERT_EQ(table.oldest(), oldest);
  }
}

}  // namespace
}  // namespace eoib
