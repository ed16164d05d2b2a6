#include "vswitch/wire/ethernet.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

constexpr char kMacs[] = "02005e100002 02005e100001 ";

TEST(ParseEthernetTest, Headers) {
  const struct {
    const char* description;
    std::string hex;
    DropReason reason;
    bool tagged;
    uint16_t vid;
    int priority;
    uint16_t ethertype;
    int payload;
  } kRows[] = {
      {"IPv4", "0800", DropReason::kNone, false, 0, 0, 0x0800, 14},
      {"802.3 length", "0026 4242 03", DropReason::kNone, false, 0, 0, 0x0026, 14},
      {"VLAN 100", "8100 0064 0806", DropReason::kNone, true, 100, 0, 0x0806, 18},
      {"VLAN 4094, priority 7, drop eligible", "8100 fffe 86dd", DropReason::kNone, true, 4094, 7,
       0x86dd, 18},
      {"priority-tagged", "8100 a000 0800", DropReason::kNone, true, 0, 5, 0x0800, 18},
      {"two tags: the inner one is payload", "8100 000a 8100 000b 0800", DropReason::kNone, true,
       10, 0, 0x8100, 18},
      {"a provider tag is payload", "88a8 000a 8100 000b 0800", DropReason::kNone, false, 0, 0,
       0x88a8, 14},
      {"VID 4095", "8100 0fff 0800", DropReason::kReservedVid, true, 4095, 0, 0x0800, 18},
  };
  for (const auto& row : kRows) {
    EthernetInfo info;
    EXPECT_EQ(ParseEthernet(FromHex(kMacs + row.hex), &info), row.reason) << row.description;
    EXPECT_EQ(info.destination, MacAddr::FromUint64(0x02005e100002)) << row.description;
    EXPECT_EQ(info.source, MacAddr::FromUint64(0x02005e100001)) << row.description;
    EXPECT_EQ(info.tagged, row.tagged) << row.description;
    EXPECT_EQ(info.vid, Vid(row.vid)) << row.description;
    EXPECT_EQ(info.priority, row.priority) << row.description;
    EXPECT_EQ(info.ethertype, row.ethertype) << row.description;
    EXPECT_EQ(info.payload, row.payload) << row.description;
  }
}

TEST(ParseEthernetTest, Runts) {
  const std::vector<uint8_t> untagged = FromHex(absl::StrCat(kMacs, "0800"));
  const std::vector<uint8_t> tagged = FromHex(absl::StrCat(kMacs, "8100 0001 0800"));
  EthernetInfo info;
  for (size_t size = 0; size < untagged.size(); ++size) {
    const std::vector<uint8_t> cut(untagged.begin(), untagged.begin() + static_cast<long>(size));
    EXPECT_EQ(ParseEthernet(cut, &info), DropReason::kRunt) << size;
  }
  for (size_t size = untagged.size(); size < tagged.size(); ++size) {
    const std::vector<uint8_t> cut(tagged.begin(), tagged.begin() + static_cast<long>(size));
    EXPECT_EQ(ParseEthernet(cut, &info), DropReason::kRunt) << size << ", cut within its tag";
  }
  EXPECT_EQ(ParseEthernet(tagged, &info), DropReason::kNone);
}

std::string Tags(int count, const char* tag) {
  std::string tags;
  for (int i = 0; i < count; ++i) absl::StrAppend(&tags, tag);
  return tags;
}

TEST(CarriesControlEtherTypeTest, Frames) {
  const struct {
    const char* description;
    std::string hex;
    bool carries;
  } kRows[] = {
      {"control", "88b5", true},
      {"alternative", "8919", true},
      {"IPv4", "0800", false},
      {"its bytes in the payload only", "0800 88b5 8919", false},
      {"behind one tag", "8100 0064 88b5", true},
      {"behind a provider tag", "88a8 0064 8919", true},
      {"behind both kinds", "88a8 0064 8100 0065 88b5", true},
      {"behind eight tags", Tags(8, "81000001") + "88b5", true},
      {"IPv4 behind eight tags", Tags(8, "88a80001") + "0800", false},
      {"nine tags count as hiding", Tags(9, "81000001") + "0800", true},
      {"cut behind a tag", "8100 0064", false},
      {"cut within the EtherType", "88", false},
      {"no EtherType", "", false},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(CarriesControlEtherType(FromHex(kMacs + row.hex)), row.carries) << row.description;
}

TEST(PayloadBehindTagsTest, Frames) {
  const struct {
    const char* description;
    std::string hex;
    size_t payload;
  } kRows[] = {
      {"untagged", "0800 45", 14},
      {"one tag", "8100 0064 0800 45", 18},
      {"both kinds", "88a8 0064 8100 0065 86dd 60", 22},
      {"eight tags", Tags(8, "81000001") + "0800 45", 46},
      {"nine tags: all of it", Tags(9, "81000001") + "0800 45", 51},
      {"cut within a tag: all of it", "8100 00", 15},
      {"nothing", "", 12},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(PayloadBehindTags(FromHex(kMacs + row.hex)), row.payload) << row.description;
}

TEST(EndsWithFcsTest, Frames) {
  const struct {
    const char* description;
    const char* hex;
    const char* fcs;
  } kRows[] = {
      {"no frame", "", "00000000"},
      {"the CRC's check value", "313233343536373839", "2639f4cb"},
      {"TCP, padded to 60",
       "02005e10000202005e10000108004500002c123400004006e494c0000201c00002029c400050000000010000000"
       "250180400bc5f0000656f69620000",
       "eaa083e2"},
      {"UDP behind an 802.1Q tag, padded to 64",
       "02005e10000202005e10000181006064080045000021123400004011e494c0000201c00002029c400009000d9bb"
       "468656c6c6f00000000000000000000000000",
       "f7146f80"},
      {"ARP, not padded",
       "02005e10000202005e1000010806000108000604000102005e100001c0000201000000000000c0000202",
       "3224018a"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.description);
    std::vector<uint8_t> frame = FromHex(absl::StrCat(row.hex, row.fcs));
    EXPECT_TRUE(EndsWithFcs(frame));
    for (uint8_t& byte : frame) {
      byte ^= 0x10;
      EXPECT_FALSE(EndsWithFcs(frame));
      byte ^= 0x10;
    }
    frame.push_back(0);
    EXPECT_FALSE(EndsWithFcs(frame)) << "zeros behind it are no part of it";
  }
  for (size_t size = 0; size < kFcsSize; ++size)
    EXPECT_FALSE(EndsWithFcs(std::vector<uint8_t>(size, 0))) << size;
}

TEST(LinkLocalGroupTest, Addresses) {
  EXPECT_EQ(LinkLocalGroup(MacAddr::FromUint64(0x0180c2000000)), 0);
  EXPECT_EQ(LinkLocalGroup(MacAddr::FromUint64(0x0180c2000001)), 1);
  EXPECT_EQ(LinkLocalGroup(MacAddr::FromUint64(0x0180c200000e)), 14);
  EXPECT_EQ(LinkLocalGroup(MacAddr::FromUint64(0x0180c200000f)), 15);
  EXPECT_EQ(LinkLocalGroup(MacAddr::FromUint64(0x0180c2000010)), -1)
      << "the next block, which bridges forward";
  EXPECT_EQ(LinkLocalGroup(MacAddr::FromUint64(0x0080c2000000)), -1);
  EXPECT_EQ(LinkLocalGroup(MacAddr::Broadcast()), -1);
}

TEST(VlanTagTest, InsertSetRemove) {
  std::vector<uint8_t> buffer = FromHex(absl::StrCat("eeeeeeee", kMacs, "0800 4500"));
  uint8_t* frame = buffer.data() + kVlanTagSize;

  InsertVlanTag(frame, Vid(100), 5);
  EXPECT_EQ(ToHex(buffer), ToHex(FromHex(absl::StrCat(kMacs, "8100 a064 0800 4500"))));
  frame -= kVlanTagSize;

  frame[14] |= 0x10;  // set DEI
  SetVlanId(frame, Vid(4094));
  EXPECT_EQ(ToHex(buffer), ToHex(FromHex(absl::StrCat(kMacs, "8100 bffe 0800 4500"))))
      << "priority and eligibility are kept";

  RemoveVlanTag(frame);
  EXPECT_EQ(ToHex(absl::MakeConstSpan(buffer).subspan(kVlanTagSize)),
            ToHex(FromHex(absl::StrCat(kMacs, "0800 4500"))));
}

}  // namespace
}  // namespace eoib
