#include "vswitch/base/counters.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace eoib {
namespace {

using ::testing::ElementsAre;

#define FRUIT(X)                     \
  X(kApple, "apple", "green or red") \
  X(kPear, "pear", "green")          \
  X(kPlum, "plum", "blue")
EOIB_LABELLED(Fruit, FRUIT, kNone = 255)

TEST(LabelledCountersTest, TheListMakesEnumeratorsAndInfos) {
  EXPECT_EQ(static_cast<int>(Fruit::kCount), 3);
  EXPECT_EQ(static_cast<int>(Fruit::kNone), 255);
  EXPECT_STREQ(InfoOf(Fruit::kPear).label, "pear");
  EXPECT_STREQ(InfoOf(Fruit::kPlum).help, "blue");
}

template <typename Counters>
std::vector<std::string> TextOf(const Counters& counters) {
  std::vector<std::string> text;
  counters.ForEach([&](const std::string& name, uint64_t count, const std::string& help) {
    text.push_back(name + " " + std::to_string(count) + " " + help);
  });
  return text;
}

template <typename Value>
void CountFruit() {
  LabelledCounters<Fruit, Value> counters;
  counters.Add(Fruit::kApple);
  counters.Add(Fruit::kPear, 10);
  counters.Add(Fruit::kPlum, 100);
  EXPECT_EQ(std::as_const(counters)[Fruit::kPear], 10u);
  EXPECT_EQ(counters.Sum(), 111u);
  EXPECT_EQ(counters.Sum(Fruit{}, Fruit::kPlum), 11u);
  EXPECT_EQ(counters.Sum(Fruit::kPlum), 100u);
  EXPECT_THAT(TextOf(counters),
              ElementsAre("apple 1 green or red", "pear 10 green", "plum 100 blue"));
}

TEST(LabelledCountersTest, SumsARange) {
  CountFruit<uint64_t>();
  CountFruit<Counter>();
}

enum class Colour { kGreen, kBlue };
#define TREES(X)                   \
  X(apple_trees, "trees of apple") \
  X(plum_trees, "trees of plum", Colour::kBlue)
struct Trees {
  EOIB_COUNTERS(Trees, Counter, TREES, Colour)
};

TEST(CountersTest, TheListMakesMembersAndRows) {
  Trees trees;
  trees.plum_trees.Add(3);
  EXPECT_THAT(TextOf(trees),
              ElementsAre("apple_trees 0 trees of apple", "plum_trees 3 trees of plum"));
  EXPECT_EQ(Trees::Rows()[0].part, Colour::kGreen);
  EXPECT_EQ(Trees::Rows()[1].part, Colour::kBlue);
  const Trees copy = trees;
  trees.plum_trees += 4;
  EXPECT_EQ(copy.plum_trees.value(), 3u);
  EXPECT_EQ(trees.plum_trees.value(), 7u);
}

}  // namespace
}  // namespace eoib
