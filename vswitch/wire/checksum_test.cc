#include "vswitch/wire/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "vswitch/wire/golden_frames_for_test.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

// RFC 1071 literally: sixteen bits at a time.
uint16_t SlowSum(absl::Span<const uint8_t> bytes, uint32_t initial = 0) {
  uint64_t sum = initial;
  for (size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(sum);
}

ChecksumRequest RequestFor(const L4Location& l4) {
  return {true, l4.l4, static_cast<uint16_t>(l4.kind == L4Checksum::kTcpOk ? 16 : 6)};
}

uint16_t Field(const Bytes& frame, const ChecksumRequest& request) {
  const size_t at = size_t{request.start} + request.offset;
  return static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
}

void SetField(Bytes* frame, const ChecksumRequest& request, uint16_t value) {
  const size_t at = size_t{request.start} + request.offset;
  (*frame)[at] = static_cast<uint8_t>(value >> 8);
  (*frame)[at + 1] = static_cast<uint8_t>(value);
}

// The pseudo-header sum of a frame with a right checksum: 0xffff minus the sum of the segment
// without its checksum field.
uint16_t PseudoSumOf(Bytes frame, const L4Location& l4) {
  const ChecksumRequest request = RequestFor(l4);
  const uint16_t right = Field(frame, request);
  SetField(&frame, request, 0);
  const uint16_t segment = SlowSum(absl::MakeConstSpan(frame).subspan(l4.l4, l4.l4_length));
  // right == ~(pseudo + segment), so pseudo == ~right - segment; subtracting is adding the
  // complement.
  return SlowSum(
      {}, static_cast<uint32_t>(static_cast<uint16_t>(~right)) + static_cast<uint16_t>(~segment));
}

TEST(OnesComplementSumTest, Examples) {
  const struct {
    const char* description;
    const char* hex;
    uint32_t initial;
    uint16_t sum;
  } kRows[] = {
      {"nothing", "", 0, 0},
      {"nothing, an initial value above 16 bits", "", 0x1'fffe, 0xffff},
      {"the largest initial value", "", 0xffff'ffff, 0xffff},
      {"RFC 1071 §3", "0001f203f4f5f6f7", 0, 0xddf2},
      {"an odd byte counts as the high half", "0001f2", 0, 0xf201},
      {"one byte", "ab", 0, 0xab00},
      {"zeros stay zero", "000000000000000000", 0, 0},
      {"minus zero stays minus zero", "ffffffffffffffffffff", 0, 0xffff},
      {"carries that come twice", "ffff0001", 0xffff, 0x0001},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(OnesComplementSum(FromHex(row.hex), row.initial), row.sum) << row.description;
}

TEST(OnesComplementSumTest, AgreesWithAPlainLoopAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  for (size_t length = 0; length < 600; ++length) {
    for (size_t alignment = 0; alignment < 8; ++alignment) {
      Bytes bytes(alignment + length);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(length % 3 == 0 ? 0xff : random());
      const auto span = absl::MakeConstSpan(bytes).subspan(alignment);
      const uint32_t initial = static_cast<uint32_t>(random());
      ASSERT_EQ(OnesComplementSum(span, initial), SlowSum(span, initial))
          << length << " bytes at " << alignment;
      Bytes copy(length + 1, 0xa5);
      ASSERT_EQ(CopyAndSum(span, copy.data()), SlowSum(span))
          << length << " bytes at " << alignment;
      ASSERT_TRUE(std::equal(span.begin(), span.end(), copy.begin()))
          << length << " bytes at " << alignment;
      ASSERT_EQ(copy.back(), 0xa5) << length << " bytes at " << alignment;
    }
  }
}

// Counters that are too narrow overflow at extreme words, up or down.
TEST(OnesComplementSumTest, CountsManyExtremeWords) {
  for (const uint8_t byte : {0x00, 0x7f, 0x80, 0xff}) {
    for (const size_t length :
         {size_t{4096}, size_t{65535}, (size_t{1} << 20) + 128, (size_t{2} << 20) + 129}) {
      const Bytes bytes(length, byte);
      Bytes copy(length);
      EXPECT_EQ(OnesComplementSum(bytes), SlowSum(bytes)) << int{byte} << " times " << length;
      EXPECT_EQ(CopyAndSum(bytes, copy.data()), SlowSum(bytes)) << int{byte} << " times " << length;
      EXPECT_EQ(copy, bytes);
    }
  }
}

TEST(FindL4Test, GoldenFrames) {
  for (const GoldenFrame& row : kGoldenFrames) {
    const L4Location found = FindL4(FromHex(row.hex));
    EXPECT_EQ(found.kind, row.l4.kind) << row.description;
    EXPECT_EQ(found.ip, row.l4.ip) << row.description;
    EXPECT_EQ(found.l4, row.l4.l4) << row.description;
    EXPECT_EQ(found.l4_length, row.l4.l4_length) << row.description;
  }
}

TEST(FindL4Test, FindsNothingInAFrameCutAnywhereBeforeItsPacketsEnd) {
  for (const GoldenFrame& row : kGoldenFrames) {
    const Bytes frame = FromHex(row.hex);
    const size_t end = size_t{row.l4.l4} + row.l4.l4_length;
    for (size_t size = 0; size < end; ++size) {
      // Of exact size, for the sanitizer.
      const Bytes cut(frame.begin(), frame.begin() + static_cast<long>(size));
      EXPECT_EQ(FindL4(cut).kind, L4Checksum::kNone) << row.description << ", " << size << " bytes";
    }
  }
}

TEST(PrepareChecksumTest, VouchesForTcpAndUdpAndLeavesTheFrameAsItIs) {
  for (const GoldenFrame& row : kGoldenFrames) {
    if (row.l4.kind == L4Checksum::kNone) continue;
    Bytes frame = FromHex(row.hex);
    SetField(&frame, RequestFor(row.l4), PseudoSumOf(frame, row.l4));
    const Bytes before = frame;
    L4Checksum vouched = L4Checksum::kNone;
    EXPECT_TRUE(PrepareChecksum(absl::MakeSpan(frame), RequestFor(row.l4), &vouched))
        << row.description;
    EXPECT_EQ(vouched, row.l4.kind) << row.description;
    EXPECT_EQ(frame, before) << row.description;
  }
}

TEST(PrepareChecksumTest, OtherRequests) {
  const Bytes tcp = FromHex(kGoldenFrames[0].hex);  // 60 bytes, TCP at 34
  const Bytes udp = FromHex(kGoldenFrames[3].hex);  // UDP at 38
  const Bytes tagged = FromHex(kGoldenFrames[4].hex);
  Bytes provider_tagged = tagged;
  provider_tagged[12] = 0x88;
  provider_tagged[13] = 0xa8;
  const struct {
    const char* description;
    Bytes frame;
    ChecksumRequest request;
    bool accepted;
    bool changed;
  } kRows[] = {
      {"no request", tcp, {false, 34, 16}, true, false},
      {"no request, offsets outside of the frame", tcp, {false, 9000, 16}, true, false},
      {"TCP with the offset of UDP", tcp, {true, 34, 6}, true, true},
      {"UDP with the offset of TCP", udp, {true, 38, 16}, true, true},
      {"start not at the header", tcp, {true, 36, 16}, true, true},
      {"a sum that ends with the frame", tcp, {true, 34, 24}, true, true},
      {"a sum one byte behind the frame", tcp, {true, 34, 25}, false, false},
      {"start behind the frame", tcp, {true, 60, 0}, false, false},
      {"start at the payload", tcp, {true, 14, 10}, true, true},
      {"start at the EtherType: it would be rewritten", tcp, {true, 12, 0}, false, false},
      {"start at a MAC address", tcp, {true, 0, 6}, false, false},
      {"start at the frame, offset in its payload", tcp, {true, 0, 50}, false, false},
      {"start at the VID", tagged, {true, 14, 0}, false, false},
      {"start at the EtherType behind a tag", tagged, {true, 16, 0}, false, false},
      {"start at the payload behind a tag", tagged, {true, 18, 10}, true, true},
      {"start at the EtherType behind a provider's tag",
       provider_tagged,
       {true, 14, 2},
       false,
       false},
      {"start and offset that would overflow 16 bits", tcp, {true, 0xffff, 0xffff}, false, false},
  };
  for (const auto& row : kRows) {
    Bytes frame = row.frame;
    L4Checksum vouched = L4Checksum::kUdpOk;
    EXPECT_EQ(PrepareChecksum(absl::MakeSpan(frame), row.request, &vouched), row.accepted)
        << row.description;
    EXPECT_EQ(vouched, L4Checksum::kNone) << row.description;
    EXPECT_EQ(frame != row.frame, row.changed) << row.description;
  }
}

// Fragments, ICMPv6 and all else that the header cannot vouch for get a finished checksum.
TEST(PrepareChecksumTest, FinishesOtherChecksums) {
  for (const GoldenFrame& row : kGoldenFrames) {
    Bytes frame = FromHex(row.hex);
    if (row.l4.kind != L4Checksum::kNone || frame.size() < 60) continue;
    const ChecksumRequest request{true, 40, 4};
    SetField(&frame, request, 0x1234);
    const Bytes before = frame;
    L4Checksum vouched = L4Checksum::kUdpOk;
    ASSERT_TRUE(PrepareChecksum(absl::MakeSpan(frame), request, &vouched)) << row.description;
    EXPECT_EQ(vouched, L4Checksum::kNone) << row.description;
    Bytes expected = before;
    SetField(&expected, request,
             static_cast<uint16_t>(~SlowSum(absl::MakeConstSpan(before).subspan(40))));
    EXPECT_EQ(frame, expected) << row.description;
  }
}

TEST(AcceptChecksumTest, DoesNotTrustTheField) {
  for (const GoldenFrame& row : kGoldenFrames) {
    if (row.l4.kind == L4Checksum::kNone) continue;
    const Bytes golden = FromHex(row.hex);
    for (uint16_t garbage : {0x0000, 0xffff, 0xdead}) {
      Bytes frame = golden;
      SetField(&frame, RequestFor(row.l4), garbage);
      const ChecksumRequest request = AcceptChecksum(absl::MakeSpan(frame), row.l4.kind);
      EXPECT_EQ(request, RequestFor(row.l4)) << row.description;
      EXPECT_EQ(Field(frame, request), PseudoSumOf(golden, row.l4)) << row.description;
      CompleteChecksum(absl::MakeSpan(frame), request);
      EXPECT_EQ(ToHex(frame), ToHex(golden)) << row.description;
    }
  }
}

TEST(AcceptChecksumTest, LeavesAFrameWithoutTheVouchedHeaderAsItIs) {
  for (const GoldenFrame& row : kGoldenFrames) {
    for (L4Checksum vouched : {L4Checksum::kNone, L4Checksum::kTcpOk, L4Checksum::kUdpOk}) {
      if (vouched == row.l4.kind && vouched != L4Checksum::kNone) continue;
      Bytes frame = FromHex(row.hex);
      EXPECT_FALSE(AcceptChecksum(absl::MakeSpan(frame), vouched).needed) << row.description;
      EXPECT_EQ(frame, FromHex(row.hex)) << row.description;
    }
  }
}

// An interface sums to the end of the frame, so bytes after the packet would spoil the checksum.
TEST(AcceptChecksumTest, ClearsTheBytesBehindThePacket) {
  Bytes frame = FromHex(kGoldenFrames[0].hex);
  const Bytes golden = frame;
  frame[58] = 0xba;
  frame[59] = 0xad;
  EXPECT_TRUE(AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kTcpOk).needed);
  EXPECT_EQ(frame[58], 0);
  EXPECT_EQ(frame[59], 0);
  const auto to_the_end = absl::MakeConstSpan(frame).subspan(34);
  EXPECT_EQ(static_cast<uint16_t>(~SlowSum(to_the_end)), Field(golden, {true, 34, 16}));
}

TEST(CompleteChecksumTest, AZeroSumOfTcpStaysZero) {
  const ChecksumRequest request{true, 34, 16}, sequence{true, 34, 6};
  Bytes frame = FromHex(kGoldenFrames[0].hex);
  ASSERT_EQ(Field(frame, sequence), 1);
  SetField(&frame, sequence, static_cast<uint16_t>(1 + Field(frame, request)));
  CompleteChecksum(absl::MakeSpan(frame),
                   AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kTcpOk));
  EXPECT_EQ(Field(frame, request), 0);
}

TEST(CompleteChecksumTest, AZeroSumOfUdpIsStoredAsItsOtherForm) {
  const GoldenFrame& row = kGoldenFrames[6];
  Bytes frame = FromHex(row.hex);
  ASSERT_EQ(Field(frame, RequestFor(row.l4)), 0xffff) << row.description;
  SetField(&frame, RequestFor(row.l4), 0);
  CompleteChecksum(absl::MakeSpan(frame),
                   AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kUdpOk));
  EXPECT_EQ(ToHex(frame), row.hex);
}

TEST(CompleteChecksumTest, ARequestThatIsNotNeededChangesNothing) {
  Bytes frame = FromHex(kGoldenFrames[0].hex);
  CompleteChecksum(absl::MakeSpan(frame), ChecksumRequest{});
  EXPECT_EQ(ToHex(frame), kGoldenFrames[0].hex);
}

}  // namespace
}  // namespace eoib
