#include "vswitch/wire/ip/udp.h"

#include <gtest/gtest.h>

#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(UdpTest, GoldenDatagrams) {
  const struct {
    const char* description;
    Bytes packet;
    uint16_t source, destination;
    size_t size;
  } kRows[] = {
      {"a discover", FromHex(kBusyboxDiscover), 68, 67, 300},
      {"an offer", FromHex(kDnsmasqOffer), 67, 68, 300},
      {"without a checksum", WithCount(kLinuxUdp4, 600), 1000, 2000, 600},
  };
  for (const auto& row : kRows) {
    const auto packet = ParseIpv4Packet(row.packet);
    ASSERT_TRUE(packet.has_value()) << row.description;
    const auto datagram = ParseUdp(*packet);
    ASSERT_TRUE(datagram.has_value()) << row.description;
    EXPECT_EQ(datagram->source_port, row.source) << row.description;
    EXPECT_EQ(datagram->destination_port, row.destination) << row.description;
    EXPECT_EQ(datagram->payload, absl::MakeConstSpan(row.packet).last(row.size)) << row.description;
  }
}

TEST(UdpTest, Refuses) {
  Bytes wrong = FromHex(kBusyboxDiscover);
  wrong.back() ^= 1;
  const struct {
    const char* description;
    Bytes packet;
  } kRows[] = {
      {"a wrong checksum", wrong},
      {"another protocol", FromHex(kLinuxIgmp3Join)},
      {"a first part", WithCount(kLinuxUdp4First, 272)},
      {"a last part", WithCount(kLinuxUdp4Last, 48)},
      {"a header that is cut", Ipv4Of(17, Bytes(7))},
      {"longer than the packet", Ipv4Of(17, FromHex("0001000200090000"))},
      {"shorter than the packet", Ipv4Of(17, FromHex("0001000200080000 00"))},
  };
  for (const auto& row : kRows) {
    const auto packet = ParseIpv4Packet(row.packet);
    ASSERT_TRUE(packet.has_value()) << row.description;
    EXPECT_FALSE(ParseUdp(*packet).has_value()) << row.description;
  }
}

// Rewrites a datagram from Busybox.
TEST(UdpTest, Writes) {
  const Bytes golden = FromHex(kBusyboxDiscover);
  const auto payload = absl::MakeConstSpan(golden).subspan(kUdp4HeadersSize);
  const Udp4Headers headers{Ipv4Addr(), Ipv4Addr::Broadcast(), 68, 67};
  Bytes out(golden.size() + 1, 0xee);
  EXPECT_EQ(ToHex(BuildUdp4(headers, payload, absl::MakeSpan(out))), ToHex(golden));
  EXPECT_EQ(out.back(), 0xee);

  Bytes in_place(kUdp4HeadersSize, 0xee);
  in_place.insert(in_place.end(), payload.begin(), payload.end());
  const auto own = absl::MakeConstSpan(in_place).subspan(kUdp4HeadersSize);
  EXPECT_EQ(ToHex(BuildUdp4(headers, own, absl::MakeSpan(in_place))), ToHex(golden));
}

TEST(UdpTest, WritesNothingThatDoesNotFit) {
  Bytes out(kUdp4HeadersSize + 4, 0xee);
  const Bytes before = out;
  EXPECT_TRUE(BuildUdp4({}, Bytes(5), absl::MakeSpan(out)).empty());
  EXPECT_EQ(out, before);
  EXPECT_EQ(BuildUdp4({}, Bytes(4), absl::MakeSpan(out)).size(), 32u);
  EXPECT_EQ(BuildUdp4({}, {}, absl::MakeSpan(out)).size(), 28u);
  Bytes large(70'000);
  EXPECT_TRUE(BuildUdp4({}, Bytes(65'508), absl::MakeSpan(large)).empty())
      << "no packet has 65,508 bytes of payload";
  EXPECT_EQ(BuildUdp4({}, Bytes(65'507), absl::MakeSpan(large)).size(), 65'535u);
}

}  // namespace
}  // namespace eoib
