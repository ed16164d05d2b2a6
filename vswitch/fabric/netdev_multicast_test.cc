#include "vswitch/fabric/netdev_multicast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

using testing::HasSubstr;

// Groups that no other test uses, since all tests share the loopback device. The P_Key changes
// their upper bits only.
constexpr uint32_t kTestPrefix = 0xff12'e0fe;
Mgid NumberedGroup(uint16_t number) {
  return FloodMgid(PKey(static_cast<uint16_t>(0x8000 | number)), kTestPrefix);
}

// The groups with this prefix that the kernel has at `netdev`, as hex digits.
std::set<std::string> KernelGroups(const std::string& netdev) {
  std::ifstream file("/proc/net/igmp6");
  std::set<std::string> groups;
  std::string index, name, group, rest;
  while (file >> index >> name >> group && std::getline(file, rest)) {
    if (name == netdev && group.rfind("ff12e0fe", 0) == 0) groups.insert(group);
  }
  return groups;
}

std::string Hex(const Mgid& mgid) {
  std::string hex;
  for (uint8_t byte : mgid.gid().bytes()) absl::StrAppendFormat(&hex, "%02x", byte);
  return hex;
}

class NetdevMulticastTest : public testing::Test {
 protected:
  const int lo_ = static_cast<int>(if_nametoindex("lo"));
};

TEST_F(NetdevMulticastTest, TheNetworkDeviceIsAMemberUntilItLeaves) {
  NetdevMulticast groups;
  const Mgid one = NumberedGroup(1), two = NumberedGroup(2);
  ASSERT_TRUE(groups.Join(lo_, one).ok());
  ASSERT_TRUE(groups.Join(lo_, two).ok());
  EXPECT_TRUE(KernelGroups("lo").contains(Hex(one)));
  EXPECT_TRUE(KernelGroups("lo").contains(Hex(two))) << "though they share one multicast MAC";
  groups.Leave(one);
  EXPECT_FALSE(KernelGroups("lo").contains(Hex(one)));
  EXPECT_TRUE(KernelGroups("lo").contains(Hex(two)));
  groups.Leave(one);
  EXPECT_EQ(groups.groups(), 1u);
}

TEST_F(NetdevMulticastTest, JoiningAgainIsOneMembership) {
  NetdevMulticast groups;
  ASSERT_TRUE(groups.Join(lo_, NumberedGroup(3)).ok());
  ASSERT_TRUE(groups.Join(lo_, NumberedGroup(3)).ok());
  groups.Leave(NumberedGroup(3));
  EXPECT_FALSE(KernelGroups("lo").contains(Hex(NumberedGroup(3))));
}

TEST_F(NetdevMulticastTest, MembershipsEndWithTheObject) {
  {
    NetdevMulticast groups;
    ASSERT_TRUE(groups.Join(lo_, NumberedGroup(4)).ok());
  }
  EXPECT_FALSE(KernelGroups("lo").contains(Hex(NumberedGroup(4))));
}

TEST_F(NetdevMulticastTest, AFullSocketIsFollowedByAnother) {
  NetdevMulticast groups;
  constexpr uint16_t kFirst = 0x1000;
  uint16_t count = 0;
  while (groups.sockets() < 3 && count < 0x4000) {
    const absl::Status joined = groups.Join(lo_, NumberedGroup(kFirst + count++));
    ASSERT_TRUE(joined.ok()) << joined;
  }
  ASSERT_EQ(groups.sockets(), 3u);
  EXPECT_TRUE(KernelGroups("lo").contains(Hex(NumberedGroup(kFirst + count - 1))));
  // A Leave makes room.
  groups.Leave(NumberedGroup(kFirst));
  for (uint16_t i = 0; i < 10; ++i) groups.Leave(NumberedGroup(kFirst + count - 1 - i));
  ASSERT_TRUE(groups.Join(lo_, NumberedGroup(kFirst)).ok());
  EXPECT_EQ(groups.sockets(), 3u);
}

TEST_F(NetdevMulticastTest, AFailedJoinNamesGroupAndDevice) {
  NetdevMulticast groups;
  EXPECT_EQ(groups.Join(99999, NumberedGroup(5)).message(),
            "join IPv6 group ff12:e0fe:8005:ffff:ffff:ffff:0000:0000 on network device 99999, "
            "which is not in this process's network namespace: No such device");
  EXPECT_EQ(groups.groups(), 0u);
}

}  // namespace
}  // namespace eoib
