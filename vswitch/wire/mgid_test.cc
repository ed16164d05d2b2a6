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
    const Mgid mgid = ToMgid(row.group);
    EXPECT_EQ(ToHex(mgid.gid().bytes()), ToHex(FromHex(row.hex))) << row.description;
    EXPECT_EQ(ParseVesMgid(mgid), row.group) << row.description;
  }
}

TEST(MgidTest, TheFloodGroupIsTheSameForBothMemberships) {
  EXPECT_EQ(FloodMgid(PKey(0x0001)), FloodMgid(PKey(0x8001)));
  EXPECT_EQ(FloodMgid(PKey(0x8001)), ToMgid({kDefaultMgidPrefix, PKey(0x8001)}));
  EXPECT_EQ(ParseVesMgid(FloodMgid(PKey(1), 0xff15'0001))->prefix, 0xff15'0001);
}

TEST(MgidTest, ParseRefuses) {
  const struct {
    const char* description;
    const char* hex;
  } kRows[] = {
      {"P_Key of a limited member", "ff12e01b 0001 ffffffffffff 00000000"},
      {"P_Key without a partition", "ff12e01b 8000 ffffffffffff 00000000"},
      {"version 1", "ff12e01b 8001 ffffffffffff 10000000"},
      {"type 1", "ff12e01b 8001 ffffffffffff 04000000"},
      {"NS 1", "ff12e01b 8001 ffffffffffff 01000000"},
      {"reserved bit, the highest", "ff12e01b 8001 ffffffffffff 00800000"},
      {"reserved bit, the lowest", "ff12e01b 8001 ffffffffffff 00001000"},
      {"VID 4095", "ff12e01b 8001 ffffffffffff 00000fff"},
      {"IPoIB's broadcast group", "ff12401b ffff 000000000000 ffffffff"},
      {"none", "00000000 0000 000000000000 00000000"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ParseVesMgid(Mgid(Gid::FromWire(FromHex(row.hex).data()))), absl::nullopt) << row.description;
  }
}

}  // namespace
}  // namespace eoib
