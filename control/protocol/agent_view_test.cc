#include "control/protocol/agent_view.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "control/protocol/thread_time_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vswitch/base/seed_for_test.h"

namespace eoib {
namespace {

using ::testing::UnorderedElementsAreArray;

FdbKey Key(uint64_t number) {
  return FdbKey(Vid(10), MacAddr::FromUint64(0x0200'5e10'0000 + number));
}

// Against a plain map that is searched.
TEST(AgentViewTest, KnowsTheMacsOfEachVPort) {
  std::mt19937_64 random(SeedForTest());
  AgentView view;
  std::map<FdbKey, AgentView::Mac> model;
  for (int i = 0; i < 5'000; ++i) {
    VPortMessage message;
    message.version = view.version + 1;
    const uint16_t vport = random() % 8;
    const FdbKey key = Key(random() % 100);
    switch (random() % 8) {
      case 0:
        message.gone_vports = {vport, vport, static_cast<uint16_t>(random() % 12)};
        std::erase_if(model, [&](const auto& mac) {
          return std::count(message.gone_vports.begin(), message.gone_vports.end(),
                            mac.second.vport) != 0;
        });
        break;
      case 1:
        message.gone_macs = {key};
        model.erase(key);
        break;
      default:
        message.macs = {{key, vport, static_cast<uint32_t>(random() % 3), random() % 2 == 0}};
        model[key] = {vport, message.macs[0].sequence, message.macs[0].sticky};
    }
    const auto before = view.macs;
    std::vector<FdbKey> changed;
    view.Apply(message, &changed);
    ASSERT_EQ(view.macs, model);
    ASSERT_EQ(view.macs_by_vport.size(), model.size());
    for (const auto& [mac, value] : model)
      ASSERT_TRUE(view.macs_by_vport.contains({value.vport, mac}));
    std::vector<FdbKey> differ;
    for (uint64_t number = 0; number < 100; ++number) {
      const auto old = before.find(Key(number));
      const auto now = model.find(Key(number));
      if ((old == before.end()) != (now == model.end()) ||
          (old != before.end() && !(old->second == now->second))) {
        differ.push_back(Key(number));
      }
    }
    ASSERT_THAT(changed, UnorderedElementsAreArray(differ));
  }
}

// The least of some tries.
absl::Duration CostOf(const AgentView& view, const VPortMessage& message) {
  absl::Duration least = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    AgentView copy = view;
    const absl::Duration before = ThreadTime();
    copy.Apply(message);
    least = std::min(least, ThreadTime() - before);
  }
  return least;
}

// A message has room for 2,000 withdrawn vPorts. A walk through the MACs for each of them would
// take a thousand times as long for the large view.
TEST(AgentViewTest, WithdrawnVPortsCostTheSameWithManyMacs) {
  AgentView small, large;
  for (uint64_t i = 0; i < AgentView::kMaxMacs; ++i) large.SetMac(Key(i), {1, 1, false});
  for (uint64_t i = 0; i < 64; ++i) small.SetMac(Key(i), {1, 1, false});
  VPortMessage message;
  for (uint16_t i = 0; i < 2000; ++i)
    message.gone_vports.push_back(static_cast<uint16_t>(2 + i / 2));
  EXPECT_LT(CostOf(large, message), 20 * CostOf(small, message));
}

}  // namespace
}  // namespace eoib
