#include "vswitch/port/merged_segments.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

Frame FrameOf(Bytes* bytes, const Gso& gso) {
  Frame frame{BufferId::None(), bytes->data(), static_cast<uint32_t>(bytes->size())};
  frame.gso = gso;
  return frame;
}

TEST(MergedSegmentsTest, ARightChecksumIsReopened) {
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const int vid : {-1, 20}) {
        for (const size_t payload : {3000u, 3001u, 65000u}) {
          SCOPED_TRACE(
              absl::StrCat("ipv6 ", ipv6, " udp ", udp, " vid ", vid, " payload ", payload));
          ChecksumRequest request;
          const Bytes unfinished =
              MakeSuperFrame({.ipv6 = ipv6, .udp = udp, .vid = vid, .payload = payload}, &request);
          Bytes bytes = unfinished;
          CompleteChecksum(absl::MakeSpan(bytes), request);
          Frame frame = FrameOf(&bytes, {udp ? GsoType::kUdp : GsoType::kTcp, 1000});
          EXPECT_TRUE(ReopenChecksum(PieceReader(frame.bytes()), &frame));
          EXPECT_EQ(frame.checksum, request);
          EXPECT_EQ(bytes, unfinished);
        }
      }
    }
  }
}

TEST(MergedSegmentsTest, AWrongChecksumOrNoHeaderIsRefused) {
  ChecksumRequest request;
  const Bytes unfinished = MakeSuperFrame({.payload = 3000}, &request);
  Bytes complete = unfinished;
  CompleteChecksum(absl::MakeSpan(complete), request);
  Bytes damaged = complete, fragment = complete, padded = complete;
  damaged.back() ^= 1;
  fragment[20] = 0x20;
  padded.push_back(0);
  const struct {
    const char* description;
    Bytes bytes;
    bool if_good;  // whether it is taken if the kernel says that it is good
  } kRows[] = {
      {"an unfinished checksum", unfinished, true},
      {"a damaged byte", damaged, true},
      {"a fragment", fragment, false},
      {"a byte behind the packet", padded, false},
  };
  for (const auto& row : kRows) {
    for (const bool good : {false, true}) {
      Bytes bytes = row.bytes;
      Frame frame = FrameOf(&bytes, {GsoType::kTcp, 1000});
      frame.checksum_is_good = good;
      EXPECT_EQ(ReopenChecksum(PieceReader(frame.bytes()), &frame), good && row.if_good)
          << row.description;
      EXPECT_EQ(frame.checksum.needed, good && row.if_good) << row.description;
      if (!frame.checksum.needed) {
        EXPECT_EQ(bytes, row.bytes) << row.description;
      }
    }
  }
}

// RFC 768: zero is no checksum; RFC 8200 §8.1: not over IPv6.
TEST(MergedSegmentsTest, UdpWithoutAChecksum) {
  for (const bool ipv6 : {false, true}) {
    ChecksumRequest request;
    Bytes bytes = MakeSuperFrame({.ipv6 = ipv6, .udp = true, .payload = 3000}, &request);
    bytes[request.start + 6u] = bytes[request.start + 7u] = 0;
    Frame frame = FrameOf(&bytes, {GsoType::kUdp, 1000});
    EXPECT_EQ(ReopenChecksum(PieceReader(frame.bytes()), &frame), !ipv6);
  }
}

}  // namespace
}  // namespace eoib
