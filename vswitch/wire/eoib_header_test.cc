#include "vswitch/wire/eoib_header.h"

#include <gtest/gtest.h>

#include <array>

#include "vswitch/base/hex_for_test.h"

namespace eoib {
namespace {

EoibHeader Segment(L4Checksum l4, bool more, uint8_t offset, uint16_t id) {
  EoibHeader header;
  header.l4_checksum = l4;
  header.extension = true;
  header.more_segments = more;
  header.segment_offset = offset;
  header.segment_id = id;
  return header;
}

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
      {"UDP ok, IP ok, FCS present",
       "c9400000",
       DropReason::kNone,
       {kEoib, L4Checksum::kUdpOk, true, true}},
      {"a frame behind it",
       "c9000000 02005e100002",
       DropReason::kNone,
       {kEoib, L4Checksum::kUdpOk, true}},
      {"alternative", "89190000", DropReason::kNone, {HeaderForm::kAlternative, kNone, false}},
      {"alternative, its reserved bytes are ignored",
       "8919ffff",
       DropReason::kNone,
       {HeaderForm::kAlternative, kNone, false}},
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
      {"a segment with its FCS, without extension", "c0600007", DropReason::kSegment, {}},
      {"the first segment of a frame with TCP ok", "c4a00007", DropReason::kNone,
       Segment(L4Checksum::kTcpOk, true, 0, 7)},
      {"segment 5", "c4a50007", DropReason::kNone, Segment(L4Checksum::kTcpOk, true, 5, 7)},
      {"the last possible segment", "c89fffff", DropReason::kNone,
       Segment(L4Checksum::kUdpOk, false, 31, 0xffff)},
      {"an only segment", "c0800000", DropReason::kNone, Segment(kNone, false, 0, 0)},
      {"a segment with its FCS and extension", "c0e00007", DropReason::kSegment, {}},
      {"a segment with a reserved checksum status", "cca00007", DropReason::kHeaderReserved, {}},
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
  EXPECT_EQ(ToHex(Encode({HeaderForm::kAlternative, L4Checksum::kTcpOk, true, true})), "89190000")
      << "it has no place for any";
  EXPECT_EQ(ToHex(Encode(Segment(L4Checksum::kTcpOk, true, 5, 0x1234))), "c4a51234");
  EXPECT_EQ(ToHex(Encode(Segment(L4Checksum::kNone, false, 31, 0xffff))), "c09fffff");
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
  EXPECT_EQ(accepted, 3 * 2 * (2 + 2 * 32 * 4) + 4)
      << "three TCP/UDP states by two IP states by FCS, none or segments, and the alternative with "
         "any reserved bytes";
}

}  // namespace
}  // namespace eoib
