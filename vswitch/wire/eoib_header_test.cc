#include "vswitch/wire/eoib_header.h"

#include <gtest/gtest.h>

#include <array>

#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

TEST(EoibHeaderTest, Decode) {
  const auto kNone = L4Checksum::kNone;
  const auto kEoib = HeaderForm::kEoib;
  const struct {
    const char* description;
    const char* hex;
    DropReason reason;
    EoibHeader header;
  } kRows[] = {
      {"nothing is vouched for", "c0000000", DropReason::kNone, {kEoib, kNone, false}},
      {"TCP ok", "c4000000", DropReason::kNone, {kEoib, L4Checksum::kTcpOk, false}},
      {"UDP ok", "c8000000", DropReason::kNone, {kEoib, L4Checksum::kUdpOk, false}},
      {"IP ok", "c1000000", DropReason::kNone, {kEoib, kNone, true}},
      {"TCP ok, IP ok", "c5000000", DropReason::kNone, {kEoib, L4Checksum::kTcpOk, true}},
      {"FCS present", "c0400000", DropReason::kNone, {kEoib, kNone, false, true}},
      {"UDP ok, IP ok, FCS present", "c9400000", DropReason::kNone, {kEoib, L4Checksum::kUdpOk, true, true}},
      {"a frame behind it", "c9000000 02005e100002", DropReason::kNone, {kEoib, L4Checksum::kUdpOk, true}},
      {"alternative", "89190000", DropReason::kNone, {HeaderForm::kAlternative, kNone, false}},
      {"alternative, its reserved bytes are ignored", "8919ffff", DropReason::kNone, {HeaderForm::kAlternative, kNone, false}},
      {"nothing", "", DropReason::kNotEoib, {}},
      {"three bytes", "c00000", DropReason::kNotEoib, {}},
      {"signature 00: IPoIB", "08000000", DropReason::kNotEoib, {}},
      {"signature 01", "40000000", DropReason::kNotEoib, {}},
      {"signature 10, not the alternative magic", "89180000", DropReason::kNotEoib, {}},
      {"signature 10, version 0", "80000000", DropReason::kNotEoib, {}},
      {"version 1", "d0000000", DropReason::kBadVersion, {}},
      {"version 3, everything else set too", "ffffffff", DropReason::kBadVersion, {}},
      {"more segments", "c0200000", DropReason::kSegment, {}},
      {"segment offset 1", "c0010000", DropReason::kSegment, {}},
      {"segment offset 16", "c0100000", DropReason::kSegment, {}},
      {"segment id 1", "c0000001", DropReason::kSegment, {}},
      {"segment id 0x8000", "c0008000", DropReason::kSegment, {}},
      {"a piece with its FCS", "c0600007", DropReason::kSegment, {}},
      {"a piece with its extension", "c4a00007", DropReason::kSegment, {}},
      {"extension", "c0800000", DropReason::kHeaderReserved, {}},
      {"TCP/UDP checksum status 11", "cc000000", DropReason::kHeaderReserved, {}},
      {"IP checksum status 10", "c2000000", DropReason::kHeaderReserved, {}},
      {"IP checksum status 11", "c3000000", DropReason::kHeaderReserved, {}},
  };
  for (const auto& row : kRows) {
    EoibHeader header;
    EXPECT_EQ(DecodeEoibHeader(FromHex(row.hex), &header), row.reason) << row.description;
    EXPECT_EQ(header, row.header) << row.description;
  }
}

std::array<uint8_t, kEoibHeaderSize> Encode(const EoibHeader& header) {
  std::array<uint8_t, kEoibHeaderSize> bytes;
  bytes.fill(0xee);
  EncodeEoibHeader(header, bytes.data());
  return bytes;
}

TEST(EoibHeaderTest, Encode) {
  EXPECT_EQ(ToHex(Encode({HeaderForm::kEoib, L4Checksum::kNone, false})), "c0000000");
  EXPECT_EQ(ToHex(Encode({HeaderForm::kEoib, L4Checksum::kTcpOk, true})), "c5000000");
  EXPECT_EQ(ToHex(Encode({HeaderForm::kEoib, L4Checksum::kUdpOk, false})), "c8000000");
  EXPECT_EQ(ToHex(Encode({HeaderForm::kEoib, L4Checksum::kNone, false, true})), "c0400000");
  EXPECT_EQ(ToHex(Encode({HeaderForm::kAlternative, L4Checksum::kTcpOk, true, true})), "89190000") << "it has no place for any";
}

TEST(EoibHeaderTest, EveryAcceptedHeaderEncodesTheSame) {
  int accepted = 0;
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (uint32_t low : {0x0000, 0x0001, 0x8000, 0xffff}) {
      std::array<uint8_t, kEoibHeaderSize> bytes;
      WriteWire(be32(high << 16 | low), bytes.data());
      EoibHeader header;
      if (DecodeEoibHeader(bytes, &header) != DropReason::kNone) continue;
      ++accepted;
      if (header.form == HeaderForm::kAlternative) bytes[2] = bytes[3] = 0;
      EXPECT_EQ(ToHex(Encode(header)), ToHex(bytes));
    }
  }
  EXPECT_EQ(accepted, 3 * 2 * 2 + 4)
      << "three TCP/UDP states by two IP states by FCS or none, and the alternative with any reserved bytes";
}

}  // namespace
}  // namespace eoib
