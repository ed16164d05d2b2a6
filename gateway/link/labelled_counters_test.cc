#include "gateway/link/labelled_counters.h"

#include "gateway/link/drops_json.h"
#include "gtest/gtest.h"

namespace eoib::ipoib {
namespace {

#define FRUIT(X)                     \
  X(kApple, "apple", "green or red") \
  X(kPear, "pear", "green")          \
  X(kPlum, "plum", "blue")
EOIB_DEFINE_LABELLED(Fruit, FRUIT, kNone = 255)

TEST(LabelledCountersTest, TheListMakesEnumeratorsAndInfos) {
  EXPECT_EQ(static_cast<int>(Fruit::kCount), 3);
  EXPECT_EQ(static_cast<int>(Fruit::kNone), 255);
  EXPECT_STREQ(InfoOf(Fruit::kPear).label, "pear");
  EXPECT_STREQ(InfoOf(Fruit::kPlum).help, "blue");
}

TEST(LabelledCountersTest, SumsARange) {
  LabelledCounters<Fruit> counters;
  counters.Add(Fruit::kApple);
  counters.Add(Fruit::kPear, 10);
  counters.Add(Fruit::kPlum, 100);
  EXPECT_EQ(counters[Fruit::kPear], 10u);
  EXPECT_EQ(counters.Sum(), 111u);
  EXPECT_EQ(counters.Sum(Fruit{}, Fruit::kPlum), 11u);
  EXPECT_EQ(counters.Sum(Fruit::kPlum), 100u);
}

TEST(LabelledCountersTest, DropsJsonHasTheCountersThatAreNotZero) {
  LabelledCounters<Fruit> counters;
  counters.Add(Fruit::kPlum, 7);
  EXPECT_EQ(ExplainedText(DropsJson(counters)), "  plum                          7  blue\n");
}

}  // namespace
}  // namespace eoib::ipoib
