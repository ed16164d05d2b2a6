#include "gateway/uplink/vlan_map.h"

#include "gtest/gtest.h"

namespace eoib::gateway {
namespace {

TEST(VlanMapTest, TranslatesBothWays) {
  VlanMap map;
  EXPECT_TRUE(map.Add(Vid(10), Vid(110)));
  EXPECT_TRUE(map.Add(Vid(11), Vid(111)));
  EXPECT_TRUE(map.Add(Vid(5), Vid(5)));
  EXPECT_TRUE(map.Add(Vid(100), Vid(0)));
  EXPECT_EQ(map.ToWire(Vid(10)), Vid(110));
  EXPECT_EQ(map.ToVes(Vid(111)), Vid(11));
  EXPECT_EQ(map.ToVes(Vid(10)), absl::nullopt);
  EXPECT_EQ(map.ToWire(Vid(4095)), absl::nullopt);
  EXPECT_EQ(map.native(), Vid(100));
  EXPECT_EQ(map.vlans().ToString(), "5,10-11,100");
  EXPECT_EQ(map.ToString(), "5,10-11:110,100:0");
}

TEST(VlanMapTest, RefusesASecondPartner) {
  VlanMap map;
  EXPECT_TRUE(map.Add(Vid(10), Vid(20)));
  EXPECT_FALSE(map.Add(Vid(10), Vid(21)));
  EXPECT_FALSE(map.Add(Vid(11), Vid(20)));
  EXPECT_EQ(map.ToString(), "10:20") << "unchanged";
  EXPECT_EQ(map.native(), Vid(0));
}

TEST(VlanMapTest, AllAsTheyAre) {
  const VlanMap map = VlanMap::Same(VlanSet::All());
  EXPECT_EQ(map.ToString(), "0-4094");
  EXPECT_EQ(map.ToWire(Vid(4094)), Vid(4094));
  EXPECT_EQ(VlanMap().ToString(), "none");
}

}  // namespace
}  // namespace eoib::gateway
