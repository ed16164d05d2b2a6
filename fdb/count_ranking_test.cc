#include "fdb/count_ranking.h"

#include <map>
#include <random>

#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

TEST(CountRankingTest, KnowsTheLargest) {
  CountRanking ranking;
  EXPECT_FALSE(ranking.Largest().has_value());
  ranking.Set(7, 1);
  ranking.Set(3, 2);
  EXPECT_EQ(ranking.Largest(), 3u);
  ranking.Set(7, 3);
  EXPECT_EQ(ranking.Largest(), 7u);
  ranking.Set(7, 0);
  EXPECT_EQ(ranking.Largest(), 3u);
  EXPECT_EQ(ranking.Count(3), 2u);
  EXPECT_EQ(ranking.Count(7), 0u);
  EXPECT_EQ(ranking.Count(100), 0u);
  ranking.Set(3, 0);
  EXPECT_FALSE(ranking.Largest().has_value());
}

// Changes by one, sometimes by many, compared with a search through all members.
TEST(CountRankingTest, RandomCounts) {
  const uint64_t seed = SeedForTest();
  std::mt19937 random(static_cast<uint32_t>(seed));
  CountRanking ranking;
  std::map<uint32_t, size_t> model;
  for (int step = 0; step < 100'000; ++step) {
    const uint32_t member = random() % 40;
    size_t count = model[member];
    const uint32_t dice = random() % 32;
    if (dice == 0) {
      count = random() % 50;
    } else if (dice % 2 == 0) {
      ++count;
    } else {
      count -= count != 0;
    }
    ranking.Set(member, count);
    model[member] = count;
    size_t most = 0;
    for (const auto& [m, c] : model) {
      ASSERT_EQ(ranking.Count(m), c) << "EOIB_TEST_SEED=" << seed;
      most = std::max(most, c);
    }
    ASSERT_EQ(ranking.Largest().has_value(), most != 0) << "EOIB_TEST_SEED=" << seed;
    if (most == 0) continue;
    ASSERT_EQ(model[*ranking.Largest()], most) << "EOIB_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace eoib
