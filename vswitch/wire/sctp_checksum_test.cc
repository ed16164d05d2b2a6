#include "vswitch/wire/sctp_checksum.h"

#include <gtest/gtest.h>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/sctp_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr char kSctpMacs[] = "02005e100002 02005e100001";
constexpr char kSctpOverIpv4[] = "0800 45000038123440004084a40ac0000201c0000202";
constexpr char kSctpOverIpv6[] =
    "86dd 600000000024844020010db800000000000000000000000120010db8000000000000000000000002";
// A DATA chunk.
constexpr char kSctp[] = "13881389000000071e85e1bb0003001500000001000000000000000068656c6c6f000000";
constexpr char kCrc[] = "1e85e1bb";

Bytes Join(std::initializer_list<const char*> parts) {
  Bytes frame;
  for (const char* part : parts) {
    const Bytes bytes = FromHex(part);
    frame.insert(frame.end(), bytes.begin(), bytes.end());
  }
  return frame;
}

// What PrepareChecksum makes of the checksum field if it held `before`, in hex; "refused" if it
// refuses the request and leaves the frame as it is.
std::string Prepare(Bytes frame, uint16_t start, const char* before = "00000000") {
  const Bytes field = FromHex(before);
  std::copy(field.begin(), field.end(), frame.begin() + start + 8);
  const Bytes given = frame;
  L4Checksum vouched = L4Checksum::kUdpOk;
  const bool accepted = PrepareChecksum(absl::MakeSpan(frame), {true, start, 8}, &vouched);
  EXPECT_EQ(vouched, L4Checksum::kNone) << "the wire format has no status for SCTP";
  const std::string now = ToHex(absl::MakeConstSpan(frame).subspan(start + 8u, 4));
  std::copy(field.begin(), field.end(), frame.begin() + start + 8);
  EXPECT_EQ(frame, given) << "only the field changes";
  return accepted ? now : now == ToHex(field) ? "refused" : "refused, but changed";
}

TEST(SctpChecksumTest, FinishesTheCrc32c) {
  const struct {
    const char* description;
    Bytes frame;
    uint16_t start;
  } kRows[] = {
      {"IPv4", Join({kSctpMacs, kSctpOverIpv4, kSctp}), 34},
      {"IPv4, padding", Join({kSctpMacs, kSctpOverIpv4, kSctp, "baad"}), 34},
      {"IPv4 with options",
       Join({kSctpMacs, "0800 4600003c123440004084a306c0000201c0000202 01010101", kSctp}), 38},
      {"IPv4 behind a tag", Join({kSctpMacs, "81000014", kSctpOverIpv4, kSctp}), 38},
      {"IPv4 behind two tags", Join({kSctpMacs, "88a8001481000015", kSctpOverIpv4, kSctp}), 42},
      {"IPv6", Join({kSctpMacs, kSctpOverIpv6, kSctp}), 54},
      {"IPv6, padding", Join({kSctpMacs, kSctpOverIpv6, kSctp, "baadbaad"}), 54},
      {"IPv6 behind hop-by-hop options and a routing header with a segment left, because a CRC32c "
       "covers no addresses",
       Join(
           {kSctpMacs,
            "86dd 600000000044004020010db800000000000000000000000120010db8000000000000000000000002",
            "2b00050200000100", "8402fd010000000020010db8000000000000000000000003", kSctp}),
       86},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Prepare(row.frame, row.start), kCrc) << row.description;
    EXPECT_EQ(Prepare(row.frame, row.start, "deadbeef"), kCrc)
        << row.description << ", a field that is not zero";
  }
}

// Whoever would finish the checksum of a part of a packet, or of one that is longer than the frame,
// would make it look good.
TEST(SctpChecksumTest, RefusesWhatIsNotWhole) {
  const struct {
    const char* description;
    Bytes frame;
    uint16_t start;
  } kRows[] = {
      {"the first fragment",
       Join({kSctpMacs, "0800 45000038123420004084c40ac0000201c0000202", kSctp}), 34},
      {"a later fragment",
       Join({kSctpMacs, "0800 45000038123400104084e3fac0000201c0000202", kSctp}), 34},
      {"total length beyond the frame",
       Join({kSctpMacs, "0800 45000039123440004084a409c0000201c0000202", kSctp}), 34},
      {"total length within the header",
       Join({kSctpMacs, "0800 4500001f123440004084a423c0000201c0000202", kSctp}), 34},
      {"payload length beyond the frame",
       Join(
           {kSctpMacs,
            "86dd 600000000025844020010db800000000000000000000000120010db8000000000000000000000002",
            kSctp}),
       54},
      {"jumbogram",
       Join(
           {kSctpMacs,
            "86dd 600000000000844020010db800000000000000000000000120010db8000000000000000000000002",
            kSctp}),
       54},
      {"a fragment of IPv6",
       Join(
           {kSctpMacs,
            "86dd 60000000002c2c4020010db800000000000000000000000120010db8000000000000000000000002",
            "8400000100000001", kSctp}),
       62},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(Prepare(row.frame, row.start, "deadbeef"), "refused") << row.description;
}

TEST(SctpChecksumTest, OtherRequestsHaveInternetChecksums) {
  const struct {
    const char* description;
    Bytes frame;
    ChecksumRequest request;
  } kRows[] = {
      {"another protocol",
       Join({kSctpMacs, "0800 45000038123440004063a42bc0000201c0000202", kSctp}),
       {true, 34, 8}},
      {"not at the header", Join({kSctpMacs, kSctpOverIpv4, kSctp}), {true, 38, 8}},
      {"another field of the header", Join({kSctpMacs, kSctpOverIpv4, kSctp}), {true, 34, 6}},
      {"no IP",
       Join({kSctpMacs, "88b6 45000038123440004084a40ac0000201c0000202", kSctp}),
       {true, 34, 8}},
  };
  for (const auto& row : kRows) {
    EXPECT_FALSE(FindSctp(row.frame, row.frame.size(), row.request).has_value()) << row.description;
    Bytes frame = row.frame;
    L4Checksum vouched;
    EXPECT_TRUE(PrepareChecksum(absl::MakeSpan(frame), row.request, &vouched)) << row.description;
    const size_t field = size_t{row.request.start} + row.request.offset;
    const auto sum = static_cast<uint16_t>(
        ~OnesComplementSum(absl::MakeConstSpan(row.frame).subspan(row.request.start)));
    EXPECT_EQ(ReadWire<be16>(&frame[field]).value(), sum) << row.description;
    EXPECT_EQ(frame[field + 2], row.frame[field + 2]) << row.description;
  }
  EXPECT_FALSE(FindSctp(kRows[0].frame, kRows[0].frame.size(), {}).has_value()) << "no request";
}

// Each frame has a buffer of its exact size, so that a sanitizer sees each read beyond it.
TEST(SctpChecksumTest, AFrameCutAnywhereHasNoWholePacket) {
  for (const Bytes& frame : {Join({kSctpMacs, kSctpOverIpv4, kSctp}),
                             Join({kSctpMacs, "88a8001481000015", kSctpOverIpv6, kSctp})}) {
    const auto start = static_cast<uint16_t>(frame.size() - FromHex(kSctp).size());
    for (size_t size = 0; size < frame.size(); ++size) {
      Bytes cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
      const auto found = FindSctp(cut, cut.size(), {true, start, 8});
      EXPECT_FALSE(found.has_value() && found->is_whole) << size;
      CompleteChecksum(absl::MakeSpan(cut), {true, start, 8});
    }
  }
}

TEST(SctpChecksumTest, FramesOfAllShapes) {
  for (const bool ipv6 : {false, true}) {
    for (const int vid : {-1, 20}) {
      for (const size_t options : {0, 8, 24}) {
        for (const size_t payload : {0, 1, 1452, 9000}) {
          ChecksumRequest request;
          Bytes frame = MakeSctpFrame(
              {.ipv6 = ipv6, .vid = vid, .ip_options = options, .payload = payload}, &request);
          const Bytes right = frame;
          frame[request.start + 8u] ^= 0xff;
          L4Checksum vouched;
          EXPECT_TRUE(PrepareChecksum(absl::MakeSpan(frame), request, &vouched));
          EXPECT_EQ(frame, right) << "ipv6 " << ipv6 << " vid " << vid << " options " << options
                                  << " payload " << payload;
        }
      }
    }
  }
}

}  // namespace
}  // namespace eoib
