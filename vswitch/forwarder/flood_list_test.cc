#include "vswitch/forwarder/flood_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace eoib {
namespace {

std::vector<FloodList::Entry> ListOf(uint32_t first, size_t count) {
  std::vector<FloodList::Entry> entries;
  for (uint32_t i = 0; i < count; ++i) entries.push_back({VPortId(first + i), VlanSet::All()});
  return entries;
}

TEST(FloodListTest, IsEmptyAtFirst) {
  FloodList list;
  EXPECT_TRUE(list.Entries().empty());
}

TEST(FloodListTest, TheWorkerSeesTheLatestList) {
  FloodList list;
  list.Publish(ListOf(1, 3));
  list.Publish(ListOf(7, 2));
  ASSERT_EQ(list.Entries().size(), 2u);
  EXPECT_EQ(list.Entries()[0].vport, VPortId(7));
  EXPECT_EQ(list.Entries().size(), 2u) << "it stays";
  list.Publish({});
  EXPECT_TRUE(list.Entries().empty());
}

// Under the sanitizers this also tests the ownership of the lists.
TEST(FloodListTest, ListsAreWholeWhileControlPublishes) {
  FloodList list;
  std::atomic<bool> done{false};
  std::thread control([&] {
    for (uint32_t i = 1; i <= 2000; ++i) list.Publish(ListOf(i, i % 7 + 1));
    done = true;
  });
  for (bool last = false; !last;) {
    last = done;
    const absl::Span<const FloodList::Entry> entries = list.Entries();
    if (entries.empty()) continue;
    const uint32_t first = entries[0].vport.value();
    ASSERT_EQ(entries.size(), first % 7 + 1);
    ASSERT_EQ(entries.back().vport.value(), first + entries.size() - 1);
  }
  control.join();
  ASSERT_FALSE(list.Entries().empty());
  EXPECT_EQ(list.Entries()[0].vport, VPortId(2000));
}

}  // namespace
}  // namespace eoib
