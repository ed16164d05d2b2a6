#include "vswitch/wire/segmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/base/seed_for_test.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> Cut(const Bytes& frame, const Segmentation& plan) {
  std::vector<Bytes> segments;
  for (size_t i = 0; i < plan.count(); ++i) {
    Bytes segment(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(plan.header_size()));
    const auto from = frame.begin() + static_cast<ptrdiff_t>(plan.payload_at(i));
    segment.insert(segment.end(), from, from + static_cast<ptrdiff_t>(plan.payload_size(i)));
    const ChecksumRequest request =
        plan.WriteHeaders(i, absl::MakeSpan(segment).first(plan.header_size()));
    EXPECT_TRUE(NamesChecksumOf(FindL4(segment), request));
    segments.push_back(segment);
  }
  return segments;
}

// Cuts a frame of `shape` and compares each segment with one that was made by itself.
void ExpectRightSegments(const SuperFrameShape& shape, const Gso& gso, size_t largest) {
  ChecksumRequest request;
  const Bytes frame = MakeSuperFrame(shape, &request);
  // The segmentation sees no more than the headers.
  const auto plan = Segmentation::Of(absl::MakeConstSpan(frame).first(HeaderSizeOf(shape)),
                                     frame.size(), gso, largest);
  ASSERT_TRUE(plan.has_value());
  const size_t each = std::min<size_t>(gso.type == GsoType::kNone ? shape.payload : gso.size,
                                       largest - HeaderSizeOf(shape));
  const std::vector<Bytes> segments = Cut(frame, *plan);
  ASSERT_EQ(segments.size(), (shape.payload + each - 1) / each);
  for (size_t i = 0; i < segments.size(); ++i) {
    const Bytes expected =
        ExpectedSegment(shape, i, i * each, std::min(shape.payload, (i + 1) * each));
    ASSERT_EQ(ToHex(segments[i]), ToHex(expected)) << "segment " << i;
    EXPECT_LE(segments[i].size(), largest);
    Bytes finished = segments[i];
    CompleteChecksum(absl::MakeSpan(finished), request);
    const L4Location l4 = FindL4(finished);
    const size_t ip = l4.ip;
    const bool ipv4 = finished[ip] >> 4 == 4;
    const auto addresses =
        absl::MakeConstSpan(finished).subspan(ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32);
    const uint16_t pseudo = PseudoHeaderSum(addresses, shape.udp ? 17 : 6, l4.l4_length);
    EXPECT_EQ(OnesComplementSum(absl::MakeConstSpan(finished).subspan(l4.l4, l4.l4_length), pseudo),
              kRightSum);
  }
}

TEST(SegmentationTest, EveryShapeOfHeaders) {
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (const int vid : {-1, 0, 100}) {
        for (const size_t ip_options : {0, 8, 40}) {
          for (const size_t tcp_options : {0, 12, 40}) {
            SCOPED_TRACE(absl::StrCat("ipv6 ", ipv6, " udp ", udp, " vid ", vid, " options ",
                                      ip_options, " ", tcp_options));
            SuperFrameShape shape;
            shape.ipv6 = ipv6;
            shape.udp = udp;
            shape.vid = vid;
            shape.ip_options = ip_options;
            shape.tcp_options = udp ? 0 : tcp_options;
            shape.payload = 5000;
            ExpectRightSegments(shape, {udp ? GsoType::kUdp : GsoType::kTcp, 1400}, 2044);
          }
        }
      }
    }
  }
}

TEST(SegmentationTest, EveryTcpFlag) {
  for (int flags = 0; flags <= 0xff; ++flags) {
    SuperFrameShape shape;
    shape.tcp_flags = static_cast<uint8_t>(flags);
    shape.payload = 300;
    for (const size_t size : {100, 150, 299}) {
      ExpectRightSegments(
          shape,
          {(flags & 0x80) != 0 ? GsoType::kTcpEcn : GsoType::kTcp, static_cast<uint16_t>(size)},
          2044);
    }
  }
}

TEST(SegmentationTest, EveryLengthOfTheLastSegment) {
  for (size_t payload = 101; payload <= 301; ++payload) {
    SuperFrameShape shape;
    shape.payload = payload;
    ExpectRightSegments(shape, {GsoType::kTcp, 100}, 2044);
    shape.udp = true;
    ExpectRightSegments(shape, {GsoType::kUdp, 100}, 2044);
  }
}

TEST(SegmentationTest, TheLargestSuperFrameAndTheWrapOfTheIpv4Id) {
  SuperFrameShape shape;
  shape.ipv4_id = 0xfff0;
  shape.payload = kLargestSuperFrame - HeaderSizeOf(shape);
  ExpectRightSegments(shape, {GsoType::kTcp, 1448}, 4092);
  ExpectRightSegments(shape, {GsoType::kTcp, 8948}, 4092);
}

TEST(SegmentationTest, ATcpFrameThatIsNoSuperFrameIsCutToTheLargestSize) {
  SuperFrameShape shape;
  shape.vid = 7;
  shape.payload = 8900;
  ExpectRightSegments(shape, {}, 4092);
  ExpectRightSegments(shape, {}, HeaderSizeOf(shape) + 1000);
}

TEST(SegmentationTest, RandomShapes) {
  std::mt19937 random(SeedForTest());
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    SuperFrameShape shape;
    shape.ipv6 = below(2) != 0;
    shape.udp = below(2) != 0;
    shape.vid = static_cast<int>(below(3)) * 50 - 1;
    shape.ip_options = below(6) * 8;
    shape.tcp_options = shape.udp ? 0 : below(11) * 4;
    shape.tcp_flags = static_cast<uint8_t>(random());
    shape.ipv4_id = static_cast<uint16_t>(random());
    shape.sequence = static_cast<uint32_t>(random());
    const size_t size = 8 + below(1800);
    shape.payload = size + 1 + below(std::min<size_t>(size * 20, 60000));
    ExpectRightSegments(
        shape, {shape.udp ? GsoType::kUdp : GsoType::kTcp, static_cast<uint16_t>(size)}, 2044);
  }
}

TEST(SegmentationTest, RefusesWhatCannotBeCut) {
  ChecksumRequest request;
  SuperFrameShape udp;
  udp.udp = true;
  udp.payload = 9000;
  const Bytes frame = MakeSuperFrame(udp, &request);
  EXPECT_FALSE(Segmentation::Of(frame, frame.size(), {}, 4092)) << "a datagram has borders";
  EXPECT_FALSE(Segmentation::Of(frame, frame.size(), {GsoType::kUdp, 4060}, 4092));
  EXPECT_TRUE(Segmentation::Of(frame, frame.size(), {GsoType::kUdp, 4050}, 4092));
  Bytes fragment = frame;
  fragment[20] = 0x20;
  EXPECT_FALSE(Segmentation::Of(fragment, fragment.size(), {GsoType::kUdp, 1000}, 4092));
  EXPECT_FALSE(Segmentation::Of(absl::MakeConstSpan(frame).first(HeaderSizeOf(udp) - 1),
                                frame.size(), {GsoType::kUdp, 1000}, 4092))
      << "headers that are not in the head";
  Bytes padded = frame;
  padded.push_back(0);
  EXPECT_FALSE(Segmentation::Of(padded, padded.size(), {GsoType::kUdp, 1000}, 4092))
      << "bytes behind the packet";
  SuperFrameShape empty;
  const Bytes no_data = MakeSuperFrame(empty, &request);
  EXPECT_FALSE(Segmentation::Of(no_data, no_data.size(), {GsoType::kTcp, 1000}, 4092));
  EXPECT_FALSE(
      Segmentation::Of(no_data, no_data.size(), {GsoType::kTcp, 1000}, HeaderSizeOf(empty)));
}

}  // namespace
}  // namespace eoib
