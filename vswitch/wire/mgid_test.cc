#include "vswitch/wire/mgid.h"

#include <gtest/gtest.h>

#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

TEST(MgidTest, GoldenGroups) {
  const struct {
    const char* description;
    VesGroup group;
    const char* hex;
  } kRows[] = {
      {"flood group", {kDefaultMgidPrefix, PKey(0x8001)}, "ff12e01b 8001 ffffffffffff 00000000"},
      {"flood group of a VLAN",
       {kDefaultMgidPrefix, PKey(0x8001), MacAddr::Broadcast(), Vid(4094)},
       "ff12e01b 8001 ffffffffffff 00000ffe"},
      {"IPv4 multicast",
       {kDefaultMgidPrefix, PKey(0xffff), MacAddr::FromUint64(0x01005e000102), Vid(100)},
       "ff12e01b ffff 01005e000102 00000064"},
      {"another prefix",
       {0xff15'cafe, PKey(0x8123), MacAddr::FromUint64(0x333300000001), Vid()},
       "ff15cafe 8123 333300000001 00000000"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ToHex(ToMgid(row.group).gid().bytes()), ToHex(FromHex(row.hex))) << row.description;
  }
}

TEST(MgidTest, FullAndLimitedMembersShareTheFloodGroup) {
  EXPECT_EQ(FloodMgid(PKey(0x0001)), FloodMgid(PKey(0x8001)));
  EXPECT_EQ(FloodMgid(PKey(0x8001)), ToMgid({kDefaultMgidPrefix, PKey(0x8001)}));
  EXPECT_EQ(FloodMgid(PKey(1), 0xff15'0001).ToString(), "ff15:0001:8001:ffff:ffff:ffff:0000:0000");
}

}  // namespace
}  // namespace eoib
