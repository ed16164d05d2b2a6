#include "control/ves/vport_announcement.h"

#include <gtest/gtest.h>

namespace eoib {
namespace {

AgentView WithVlans(const std::vector<std::vector<VlanRange>>& vports) {
  AgentView view;
  view.version = 1;
  for (const std::vector<VlanRange>& vlans : vports) {
    const auto id = static_cast<uint16_t>(view.vports.size() + 1);
    view.vports[id] = {id, "v", vlans};
  }
  return view;
}

TEST(VlansOfTest, HasTheRangesOfAllVPorts) {
  EXPECT_EQ(VlansOf(WithVlans({{{Vid(0), Vid(0)}, {Vid(10), Vid(12)}}, {{Vid(12), Vid(14)}}, {}}))
                .ToString(),
            "0,10-14");
  EXPECT_EQ(VlansOf(WithVlans({{{Vid(0), Vid(Vid::kMax)}}})).ToString(), VlanSet::All().ToString());
  EXPECT_EQ(VlansOf(WithVlans({{}})).ToString(), VlanSet::None().ToString());
}

TEST(VlansOfTest, HasAllWhileTheStateIsNotKnown) {
  EXPECT_EQ(VlansOf(AgentView()).ToString(), VlanSet::All().ToString());
}

// An agent announces at most 16 ranges of a vPort.
TEST(VlansOfTest, ManyRangesCountWithTheVlansBetween) {
  std::vector<VlanRange> few, many;
  for (uint16_t i = 0; i < 17; ++i)
    many.push_back(
        {Vid(static_cast<uint16_t>(100 + 2 * i)), Vid(static_cast<uint16_t>(100 + 2 * i))});
  few.assign(many.begin(), many.begin() + 16);
  EXPECT_FALSE(VlansOf(WithVlans({few})).Contains(Vid(101)));
  EXPECT_EQ(VlansOf(WithVlans({many})).ToString(), "100-132");
}

}  // namespace
}  // namespace eoib
