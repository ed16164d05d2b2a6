#include "vswitch/forwarder/vlan_policy.h"

#include "gtest/gtest.h"

namespace eoib {
namespace {

TEST(VlanSetTest, Prints) {
  VlanSet set;
  EXPECT_EQ(set.ToString(), "none");
  set.Add(Vid(0));
  set.Add(Vid(10));
  set.AddRange(Vid(100), Vid(149));
  set.AddRange(Vid(151), Vid(199));
  set.Add(Vid(4094));
  EXPECT_EQ(set.ToString(), "0,10,100-149,151-199,4094");
  EXPECT_EQ(VlanSet::All().ToString(), "all");
}

TEST(VlanSetTest, Contains) {
  VlanSet set;
  set.AddRange(Vid(5), Vid(6));
  EXPECT_TRUE(set.Contains(Vid(5)));
  EXPECT_FALSE(set.Contains(Vid(7)));
  EXPECT_FALSE(VlanSet::All().Contains(Vid(4095))) << "reserved";
}

EthernetInfo Untagged() { return EthernetInfo(); }
EthernetInfo Tagged(uint16_t vid) {
  EthernetInfo info;
  info.tagged = true;
  info.vid = Vid(vid);
  return info;
}

EthernetInfo DoublyTagged(uint16_t vid) {
  EthernetInfo info = Tagged(vid);
  info.ethertype = kEtherTypeVlan;
  return info;
}

VlanPolicy Access(uint16_t vid) {
  VlanPolicy policy;
  policy.access_vlan = Vid(vid);
  return policy;
}
VlanPolicy Trunk(uint16_t native) {
  VlanPolicy policy;
  policy.mode = PortMode::kTrunk;
  policy.trunk_vlans = VlanSet::None();
  policy.trunk_vlans.AddRange(Vid(10), Vid(20));
  policy.native_vlan = Vid(native);
  return policy;
}

VlanPolicy TrunkOfAll() {
  VlanPolicy policy;
  policy.mode = PortMode::kTrunk;
  return policy;
}

struct ClassifyRow {
  const char* description;
  VlanPolicy policy;
  EthernetInfo frame;
  int vid;  // -1: not carried
};

TEST(VlanPolicyTest, Classify) {
  const ClassifyRow rows[] = {
      {"access, untagged", Access(10), Untagged(), 10},
      {"access, priority-tagged", Access(10), Tagged(0), 10},
      {"access, its own tag", Access(10), Tagged(10), -1},
      {"access, a tag behind a priority tag", Access(10), DoublyTagged(0), -1},
      {"access, another tag", Access(10), Tagged(11), -1},
      {"access of the untagged VLAN, tagged", Access(0), Tagged(11), -1},
      {"trunk, tag in the set", Trunk(0), Tagged(15), 15},
      {"trunk, tag outside", Trunk(0), Tagged(21), -1},
      {"trunk without VLAN 0, untagged", Trunk(0), Untagged(), -1},
      {"trunk with VLAN 0, untagged", TrunkOfAll(), Untagged(), 0},
      {"trunk with native VLAN, untagged", Trunk(10), Untagged(), 10},
      {"trunk with native VLAN, tagged with it", Trunk(10), Tagged(10), 10},
      {"trunk with native VLAN, priority-tagged", Trunk(10), Tagged(0), 10},
      {"trunk whose native VLAN is not in its set", Trunk(30), Untagged(), -1},
  };
  for (const ClassifyRow& row : rows) {
    Vid vid;
    const bool carried = row.policy.Classify(row.frame, &vid);
    EXPECT_EQ(carried ? vid.value() : -1, row.vid) << row.description;
  }
}

struct EgressRow {
  const char* description;
  VlanPolicy policy;
  uint16_t vid;
  bool leaves, strip;
};

TEST(VlanPolicyTest, Egress) {
  const EgressRow rows[] = {
      {"access, its VLAN", Access(10), 10, true, true},
      {"access, another VLAN", Access(10), 20, false, false},
      {"access, untagged VLAN", Access(10), 0, false, false},
      {"trunk, a VLAN of its set", Trunk(0), 10, true, false},
      {"trunk, the native VLAN", Trunk(10), 10, true, true},
      {"trunk, a VLAN outside", Trunk(10), 21, false, false},
      {"trunk without VLAN 0, untagged VLAN", Trunk(0), 0, false, false},
      {"trunk with VLAN 0: a priority tag stays", TrunkOfAll(), 0, true, false},
      {"trunk, untagged VLAN with a native one", Trunk(10), 0, false, false},
  };
  for (const EgressRow& row : rows) {
    bool strip = false;
    EXPECT_EQ(row.policy.Egress(Vid(row.vid), &strip), row.leaves) << row.description;
    if (row.leaves) {
      EXPECT_EQ(strip, row.strip) << row.description;
    }
  }
}

}  // namespace
}  // namespace eoib
