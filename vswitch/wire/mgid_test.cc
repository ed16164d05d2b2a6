#include "vswitch/wire/mgid.h"

#include <gtest/gtest.h>

#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

TEST(MgidTest, GoldenGroups) {
  const struct {
    const char* description;
    uint32_t prefix;
    PKey pkey;
    const char* hex;
  } kRows[] = {
      {"default prefix", kDefaultMgidPrefix, PKey(0x8001), "ff12e01b 8001 ffffffffffff 00000000"},
      {"another prefix", 0xff15'cafe, PKey(0x8123), "ff15cafe 8123 ffffffffffff 00000000"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(ToHex(FloodMgid(row.pkey, row.prefix).gid().bytes()), ToHex(FromHex(row.hex)))
        << row.description;
  }
}

TEST(MgidTest, FullAndLimitedMembersShareTheFloodGroup) {
  EXPECT_EQ(FloodMgid(PKey(0x0001)), FloodMgid(PKey(0x8001)));
  EXPECT_EQ(FloodMgid(PKey(1), 0xff15'0001).ToString(), "ff15:0001:8001:ffff:ffff:ffff:0000:0000");
}

}  // namespace
}  // namespace eoib
