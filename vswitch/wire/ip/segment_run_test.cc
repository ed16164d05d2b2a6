#include "vswitch/wire/ip/segment_run.h"

#include <vector>

#include "gtest/gtest.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/super_frame_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

// The packet of `payload` bytes at `at` in the stream, with a complete checksum.
Bytes PacketAt(bool ipv6, bool udp, uint32_t at, size_t payload) {
  ChecksumRequest request;
  Bytes bytes = MakeSuperFrame(
      {.ipv6 = ipv6, .udp = udp, .payload = payload, .sequence = 1000 + at}, &request);
  bytes.erase(bytes.begin(), bytes.begin() + 14);
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(bytes)));
  return bytes;
}

TEST(SegmentRunTest, AWrongChecksumIsSeen) {
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      Bytes packet = PacketAt(ipv6, udp, 0, 101);
      const auto segment = SegmentRun::Parse(packet);
      ASSERT_TRUE(segment.has_value());
      EXPECT_EQ(segment->end, packet.size());
      EXPECT_EQ(segment->payload_length(), 101);
      EXPECT_TRUE(SegmentRun::HasRightChecksum(packet, *segment));
      packet.push_back(7);  // padding
      EXPECT_TRUE(SegmentRun::HasRightChecksum(packet, *segment));
      for (size_t i = segment->l4; i < segment->end; ++i) {
        packet[i] ^= 0x10;
        EXPECT_FALSE(SegmentRun::HasRightChecksum(packet, *segment)) << i;
        packet[i] ^= 0x10;
      }
      packet[ipv6 ? 39 : 19] ^= 1;  // the destination
      EXPECT_FALSE(SegmentRun::HasRightChecksum(packet, *segment));
    }
  }
}

// A joined datagram would have one.
TEST(SegmentRunTest, UdpWithoutAChecksumHasNone) {
  Bytes packet = PacketAt(false, true, 0, 100);
  const auto segment = SegmentRun::Parse(packet);
  ASSERT_TRUE(segment.has_value());
  packet[segment->l4 + 6] = packet[segment->l4 + 7] = 0;
  EXPECT_FALSE(SegmentRun::HasRightChecksum(packet, *segment));
}

TEST(SegmentRunTest, HeadersOfTheJoinedPacket) {
  for (const bool ipv6 : {false, true}) {
    SegmentRun run;
    const Bytes first = PacketAt(ipv6, false, 0, 100);
    run.Begin(first, *SegmentRun::Parse(first));
    for (uint32_t at = 100; at <= 200; at += 100) {
      const Bytes next = PacketAt(ipv6, false, at, 100);
      ASSERT_TRUE(run.IsContinuedBy(next, *SegmentRun::Parse(next)));
      run.Continue(next, *SegmentRun::Parse(next));
    }
    const Bytes gap = PacketAt(ipv6, false, 400, 100);
    EXPECT_FALSE(run.IsContinuedBy(gap, *SegmentRun::Parse(gap)));
    EXPECT_EQ(run.count(), 3u);
    ChecksumRequest request;
    const Bytes joined = MakeSuperFrame({.ipv6 = ipv6, .payload = 300, .sequence = 1000}, &request);
    const absl::Span<const uint8_t> headers = run.Headers();
    EXPECT_EQ(
        Bytes(headers.begin(), headers.end()),
        Bytes(joined.begin() + 14, joined.begin() + 14 + static_cast<ptrdiff_t>(headers.size())));
    EXPECT_EQ(run.size(), joined.size() - 14);
    EXPECT_EQ(SegmentRun::Parse(joined).has_value(), false) << "an Ethernet header is no IP";
  }
}

TEST(SegmentRunTest, NothingFollowsAClosedRun) {
  SegmentRun run;
  const Bytes first = PacketAt(false, false, 0, 100), next = PacketAt(false, false, 100, 100);
  run.Begin(first, *SegmentRun::Parse(first));
  run.Close();
  EXPECT_FALSE(run.IsContinuedBy(next, *SegmentRun::Parse(next)));
  run.Clear();
  EXPECT_FALSE(run.IsContinuedBy(next, *SegmentRun::Parse(next)));
}

}  // namespace
}  // namespace eoib
