#include "vswitch/wire/ip/icmp_error.h"

#include <gtest/gtest.h>

#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

const Ipv4Addr kRouter4(0x0a01'00fe);
Ipv6Addr Router6() { return *Ipv6Addr::Parse("fd01::254"); }

// The packet with the TTL or hop limit that it had when the router gave up.
Bytes CountedDown(const char* hex) {
  Bytes packet = FromHex(hex);
  --packet[packet[0] >> 4 == 4 ? kIpv4Ttl : kIpv6HopLimit];
  if (packet[0] >> 4 == 4) RepairIpv4(&packet);
  return packet;
}

// Clears what an implementation may choose: the IPv4 id and "don't fragment", the IPv6 flow label.
std::string Comparable(absl::Span<const uint8_t> error) {
  Bytes bytes(error.begin(), error.end());
  if (bytes.empty()) return "";
  if (bytes[0] >> 4 == 4) {
    bytes[4] = bytes[5] = bytes[6] = 0;
    RepairIpv4(&bytes);
  } else {
    bytes[1] = bytes[2] = bytes[3] = 0;
  }
  return ToHex(bytes);
}

TEST(IcmpErrorTest, MatchesLinux) {
  IcmpErrorBuffer out;
  const Bytes keep = WithCount(kLinuxDontFragment4, 600);
  EXPECT_EQ(Comparable(BuildFragmentationNeeded(*ParseIpv4Packet(keep), 300, kRouter4, &out)),
            Comparable(WithCount(kLinuxFragmentationNeeded, 520)));
  const Bytes absent4 = CountedDown(kLinuxUnreachable4);
  EXPECT_EQ(Comparable(BuildHostUnreachable(*ParseIpv4Packet(absent4), kRouter4, &out)),
            Comparable(FromHex(kLinuxHostUnreachable)));
  const Bytes large = WithCount(kLinuxUdp6, 1400);
  EXPECT_EQ(Comparable(BuildPacketTooBig(*ParseIpv6Packet(large), 1280, Router6(), &out)),
            Comparable(WithCount(kLinuxPacketTooBig, 1184)));
  const Bytes absent6 = CountedDown(kLinuxUnreachable6);
  EXPECT_EQ(Comparable(BuildAddressUnreachable(*ParseIpv6Packet(absent6), Router6(), &out)),
            Comparable(FromHex(kLinuxAddressUnreachable)));
}

TEST(IcmpErrorTest, IsAPacketWithRightChecksums) {
  IcmpErrorBuffer out;
  for (const size_t size : {size_t{1281}, size_t{1500}, size_t{65515}}) {
    const Bytes whole4 = Ipv4Of(17, Bytes(size)), whole6 = Ipv6Of(17, Bytes(size));
    const auto error4 =
        ParseIpv4Packet(BuildFragmentationNeeded(*ParseIpv4Packet(whole4), 1200, kRouter4, &out));
    ASSERT_TRUE(error4.has_value());
    EXPECT_EQ(VerifyChecksum(*error4), ChecksumVerdict::kRight);
    EXPECT_EQ(error4->bytes.size(), 576u) << "RFC 1812 §4.3.2.3";
    EXPECT_EQ(error4->destination.ToString(), "192.0.2.1");
    const auto error6 =
        ParseIpv6Packet(BuildPacketTooBig(*ParseIpv6Packet(whole6), 1300, Router6(), &out));
    ASSERT_TRUE(error6.has_value());
    EXPECT_EQ(VerifyChecksum(*error6), ChecksumVerdict::kRight);
    EXPECT_EQ(error6->bytes.size(), 1280u) << "RFC 4443 §2.4(c)";
    EXPECT_EQ(error6->destination.ToString(), "fe80::1");
    EXPECT_EQ(ToHex(error6->payload.subspan(4, 4)), "00000514") << "the MTU, 32 bits";
  }
}

Bytes With4(size_t at, const char* hex, uint8_t protocol = 17, uint8_t type = 8) {
  Bytes packet = Ipv4Of(protocol, Bytes(200, type));
  const Bytes change = FromHex(hex);
  std::copy(change.begin(), change.end(), packet.begin() + static_cast<long>(at));
  RepairIpv4(&packet);
  return packet;
}

// RFC 1122 §3.2.2.
TEST(IcmpErrorTest, Ipv4PacketsWithoutAnError) {
  const struct {
    const char* description;
    Bytes packet;
    bool told;
  } kRows[] = {
      {"a datagram", With4(0, ""), true},
      {"an echo request", With4(0, "", 1, 8), true},
      {"an echo reply", With4(0, "", 1, 0), true},
      {"unreachable", With4(0, "", 1, 3), false},
      {"source quench", With4(0, "", 1, 4), false},
      {"redirect", With4(0, "", 1, 5), false},
      {"time exceeded", With4(0, "", 1, 11), false},
      {"parameter problem", With4(0, "", 1, 12), false},
      {"a first part", With4(kIpv4Fragment, "2000"), true},
      {"a later part", With4(kIpv4Fragment, "0001"), false},
      {"to a group", With4(kIpv4Destination, "ef010101"), false},
      {"to everybody", With4(kIpv4Destination, "ffffffff"), false},
      {"without a source", With4(kIpv4Source, "00000000"), false},
      {"from this network", With4(kIpv4Source, "00010203"), false},
      {"from loopback", With4(kIpv4Source, "7f000001"), false},
      {"from a group", With4(kIpv4Source, "ef010101"), false},
      {"from class E", With4(kIpv4Source, "f0000001"), false},
      {"from everybody", With4(kIpv4Source, "ffffffff"), false},
      {"from the last of class C", With4(kIpv4Source, "dfffffff"), true},
  };
  IcmpErrorBuffer out;
  for (const auto& row : kRows) {
    const auto packet = ParseIpv4Packet(row.packet);
    ASSERT_TRUE(packet.has_value()) << row.description;
    EXPECT_EQ(BuildFragmentationNeeded(*packet, 100, kRouter4, &out).empty(), !row.told)
        << row.description;
    EXPECT_EQ(BuildHostUnreachable(*packet, kRouter4, &out).empty(), !row.told) << row.description;
  }
  const Bytes icmp = Ipv4Of(1, {}), fine = With4(0, "");
  const auto packet = *ParseIpv4Packet(fine);
  EXPECT_TRUE(BuildHostUnreachable(*ParseIpv4Packet(icmp), kRouter4, &out).empty())
      << "ICMP of no type";
  EXPECT_TRUE(BuildHostUnreachable(packet, Ipv4Addr(0xe000'0001), &out).empty()) << "from a group";
  EXPECT_TRUE(BuildFragmentationNeeded(packet, 67, kRouter4, &out).empty())
      << "an MTU that is none";
  EXPECT_FALSE(BuildFragmentationNeeded(packet, 219, kRouter4, &out).empty());
  EXPECT_TRUE(BuildFragmentationNeeded(packet, 220, kRouter4, &out).empty()) << "it fits";
}

constexpr size_t kPayload6 = 40;

Bytes With6(size_t at, const char* hex, uint8_t protocol = 17, const char* headers = "") {
  Bytes packet = Ipv6Of(protocol, Bytes(1304, 128), headers);
  const Bytes change = FromHex(hex);
  std::copy(change.begin(), change.end(), packet.begin() + static_cast<long>(at));
  return packet;
}

std::string NineHeaders() {
  std::string headers;
  for (int i = 0; i < 9; ++i) headers += i == 8 ? "1100010400000000" : "3c00010400000000";
  return headers;
}

// RFC 4443 §2.4(e).
TEST(IcmpErrorTest, Ipv6PacketsWithoutAnError) {
  constexpr char kGroup[] = "ff05000000000000000000000000 0001",
                 kUnspecified[] = "00000000000000000000000000000000",
                 kLoopback[] = "00000000000000000000000000000001";
  const struct {
    const char* description;
    Bytes packet;
    bool told_too_big, told_unreachable;
  } kRows[] = {
      {"a datagram", With6(0, ""), true, true},
      {"an echo request", With6(0, "", 58), true, true},
      {"unreachable", With6(kPayload6, "01", 58), false, false},
      {"an error of an unknown type", With6(kPayload6, "7f", 58), false, false},
      {"a redirect", With6(kPayload6, "89", 58), false, false},
      {"neighbour advertisement", With6(kPayload6, "88", 58), true, true},
      {"an error behind a header", With6(kPayload6 + 8, "01", 60, "3a00010400000000"), false,
       false},
      {"an echo request behind a header", With6(kPayload6 + 8, "80", 60, "3a00010400000000"), true,
       true},
      {"a payload behind too many headers", With6(0, "", 60, NineHeaders().c_str()), false, false},
      {"a first part of an echo request", With6(0, "", 44, "3a00000100000001"), true, true},
      {"a later part, whatever it begins with", With6(kPayload6 + 8, "01", 44, "3a00000900000001"),
       true, true},
      {"to a group", With6(kIpv6Destination, kGroup), true, false},
      {"without a source", With6(kIpv6Source, kUnspecified), false, false},
      {"from loopback", With6(kIpv6Source, kLoopback), false, false},
      {"from a group", With6(kIpv6Source, kGroup), false, false},
  };
  IcmpErrorBuffer out;
  for (const auto& row : kRows) {
    const auto packet = ParseIpv6Packet(row.packet);
    ASSERT_TRUE(packet.has_value()) << row.description;
    EXPECT_EQ(BuildPacketTooBig(*packet, 1280, Router6(), &out).empty(), !row.told_too_big)
        << row.description;
    EXPECT_EQ(BuildAddressUnreachable(*packet, Router6(), &out).empty(), !row.told_unreachable)
        << row.description;
  }
  const Bytes icmp = Ipv6Of(58, {}), fine = With6(0, "");
  const auto packet = *ParseIpv6Packet(fine);
  EXPECT_TRUE(BuildAddressUnreachable(*ParseIpv6Packet(icmp), Router6(), &out).empty())
      << "ICMP of no type";
  EXPECT_TRUE(BuildPacketTooBig(packet, 1280, *Ipv6Addr::Parse("ff02::1"), &out).empty())
      << "from a group";
  EXPECT_TRUE(BuildPacketTooBig(packet, 1279, Router6(), &out).empty()) << "an MTU that is none";
  EXPECT_FALSE(BuildPacketTooBig(packet, 1343, Router6(), &out).empty());
  EXPECT_TRUE(BuildPacketTooBig(packet, 1344, Router6(), &out).empty()) << "it fits";
}

}  // namespace
}  // namespace eoib
