#include "vswitch/wire/ip/ip_packet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Ipv4PacketTest, GoldenPackets) {
  const struct {
    const char* description;
    Bytes bytes;
    const char* source;
    const char* destination;
    uint8_t ttl, protocol;
    bool dont_fragment;
    IpFragment fragment;
    size_t options, payload;
  } kRows[] = {
      {"UDP",
       WithCount(kLinuxUdp4, 600),
       "10.1.0.1",
       "10.2.0.2",
       64,
       17,
       false,
       {0x1234, 0, false},
       0,
       608},
      {"a ping",
       PacketOf(kLinuxPing),
       "10.0.0.1",
       "10.0.0.2",
       64,
       1,
       true,
       {0xeefd, 0, false},
       0,
       64},
      {"not to be cut",
       WithCount(kLinuxDontFragment4, 600),
       "10.1.0.1",
       "10.2.0.2",
       64,
       17,
       true,
       {0x1238, 0, false},
       0,
       608},
      {"options",
       WithCount(kLinuxOptions4, 600),
       "10.1.0.1",
       "10.2.0.2",
       64,
       17,
       false,
       {0x1235, 0, false},
       12,
       608},
      {"a report",
       FromHex(kLinuxIgmp3Join),
       "10.1.0.1",
       "224.0.0.22",
       1,
       2,
       true,
       {0, 0, false},
       4,
       16},
      {"first part",
       WithCount(kLinuxUdp4First, 272),
       "10.1.0.1",
       "10.2.0.2",
       63,
       17,
       false,
       {0x1234, 0, true},
       0,
       280},
      {"later part",
       WithCount(kLinuxUdp4Second, 280),
       "10.1.0.1",
       "10.2.0.2",
       63,
       17,
       false,
       {0x1234, 280, true},
       0,
       280},
      {"last part",
       WithCount(kLinuxUdp4Last, 48),
       "10.1.0.1",
       "10.2.0.2",
       63,
       17,
       false,
       {0x1234, 560, false},
       0,
       48},
  };
  for (const auto& row : kRows) {
    const auto packet = ParseIpv4Packet(row.bytes);
    ASSERT_TRUE(packet.has_value()) << row.description;
    EXPECT_EQ(packet->source.ToString(), row.source) << row.description;
    EXPECT_EQ(packet->destination.ToString(), row.destination) << row.description;
    EXPECT_EQ(packet->ttl, row.ttl) << row.description;
    EXPECT_EQ(packet->protocol, row.protocol) << row.description;
    EXPECT_EQ(packet->dont_fragment, row.dont_fragment) << row.description;
    EXPECT_EQ(packet->fragment, row.fragment) << row.description;
    EXPECT_EQ(packet->options, absl::MakeConstSpan(row.bytes).subspan(20, row.options))
        << row.description;
    EXPECT_EQ(packet->payload, absl::MakeConstSpan(row.bytes).last(row.payload)) << row.description;
    EXPECT_EQ(packet->header(), absl::MakeConstSpan(row.bytes).first(20 + row.options))
        << row.description;
    EXPECT_EQ(packet->bytes, absl::MakeConstSpan(row.bytes)) << row.description;
  }
}

Bytes Changed(Bytes packet, size_t at, uint8_t value) {
  packet[at] = value;
  const size_t size = packet.size();
  WriteWire(be16(), &packet[10]);
  WriteWire(be16(PlainChecksum(
                absl::MakeConstSpan(packet).first(std::min(size, size_t{4} * (packet[0] & 0xf))))),
            &packet[10]);
  return packet;
}

Bytes Part(uint16_t fragment, size_t payload) {
  Bytes packet = Ipv4Of(17, Bytes(payload));
  WriteWire(be16(fragment), &packet[kIpv4Fragment]);
  RepairIpv4(&packet);
  return packet;
}

TEST(Ipv4PacketTest, Limits) {
  const Bytes whole = Ipv4Of(17, Bytes(8));
  Bytes wrong_sum = whole;
  wrong_sum[10] ^= 1;
  const struct {
    const char* description;
    Bytes bytes;
    bool good;
  } kRows[] = {
      {"nothing", {}, false},
      {"a header alone", Ipv4Of(17, {}), true},
      {"a header that is cut", Bytes(whole.begin(), whole.begin() + 19), false},
      {"IPv6", PacketOf(kLinuxPing6), false},
      {"version 5", Changed(whole, 0, 0x55), false},
      {"a header of 16 bytes", Changed(whole, 0, 0x44), false},
      {"a header as long as the packet", Changed(whole, 0, 0x47), true},
      {"a header longer than the packet", Changed(whole, 0, 0x48), false},
      {"a total length below the header's", Changed(whole, 3, 19), false},
      {"a total length that is the header's", Changed(whole, 3, 20), true},
      {"a total length beyond the bytes", Changed(whole, 3, 29), false},
      {"a wrong header checksum", wrong_sum, false},
      {"a part of whole units", Part(0x2000, 16), true},
      {"a part that is no whole units, with others to follow", Part(0x2000, 17), false},
      {"the last part, which need not be", Part(0x0001, 17), true},
      {"a part behind the last byte", Part(0x1fff, 1), false},
      {"the last part that fits", Part(0x1ffc, 65535 - 20 - 65504), true},
      {"a byte beyond it", Part(0x1ffc, 65536 - 20 - 65504), false},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(ParseIpv4Packet(row.bytes).has_value(), row.good) << row.description;
}

TEST(Ipv4PacketTest, DoesNotTakePaddingForPayload) {
  Bytes padded = Ipv4Of(17, Bytes(8));
  padded.resize(46, 0xee);
  const auto packet = ParseIpv4Packet(padded);
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->bytes.size(), 28u);
  EXPECT_EQ(packet->payload.size(), 8u);
}

TEST(Ipv4PacketTest, RefusesATruncatedPacket) {
  const Bytes whole = WithCount(kLinuxOptions4, 20);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(
        ParseIpv4Packet(Bytes(whole.begin(), whole.begin() + static_cast<long>(size))).has_value())
        << size;
  }
}

TEST(Ipv6PacketTest, GoldenPackets) {
  const struct {
    const char* description;
    Bytes bytes;
    const char* source;
    const char* destination;
    uint8_t hop_limit, protocol;
    IpFragment fragment;
    size_t hop_by_hop, payload;
  } kRows[] = {
      {"UDP", WithCount(kLinuxUdp6, 1400), "fd01::1", "fd02::2", 64, 17, {}, 0, 1408},
      {"a report", FromHex(kLinuxMld2Join), "fe80::5eff:fe10:1", "ff02::16", 1, 58, {}, 6, 28},
      {"a fragment",
       FromHex(kLinuxFragment6Last),
       "fd01::1",
       "fd01::254",
       64,
       58,
       {0xdccf4647, 1232, false},
       0,
       76},
  };
  for (const auto& row : kRows) {
    const auto packet = ParseIpv6Packet(row.bytes);
    ASSERT_TRUE(packet.has_value()) << row.description;
    EXPECT_EQ(packet->source.ToString(), row.source) << row.description;
    EXPECT_EQ(packet->destination.ToString(), row.destination) << row.description;
    EXPECT_EQ(packet->hop_limit, row.hop_limit) << row.description;
    EXPECT_EQ(packet->protocol, row.protocol) << row.description;
    EXPECT_EQ(packet->fragment, row.fragment) << row.description;
    EXPECT_EQ(packet->has_fragment_header, !row.fragment.IsWhole()) << row.description;
    EXPECT_EQ(packet->hop_by_hop, absl::MakeConstSpan(row.bytes).subspan(42, row.hop_by_hop))
        << row.description;
    EXPECT_EQ(packet->payload, absl::MakeConstSpan(row.bytes).last(row.payload)) << row.description;
    EXPECT_EQ(packet->bytes, absl::MakeConstSpan(row.bytes)) << row.description;
    EXPECT_TRUE(packet->checksum_covers_addresses && packet->reached_payload) << row.description;
  }
}

// `count` destination options headers, followed by `next`.
std::string Headers(int count, uint8_t next) {
  std::string headers;
  for (int i = 0; i < count; ++i)
    headers += i == count - 1 ? ToHex(Bytes{next, 0}) + "010400000000" : "3c00010400000000";
  return headers;
}

TEST(Ipv6PacketTest, ExtensionHeaders) {
  const struct {
    const char* description;
    uint8_t first;
    std::string headers;
    bool good;
    uint8_t protocol;
    bool checksum_covers_addresses, reached_payload;
    IpFragment fragment;
  } kRows[] = {
      {"none", 17, "", true, 17, true, true, {}},
      {"no next header", 59, "", true, 59, true, true, {}},
      {"authentication, which is not read over", 51, "", true, 51, true, true, {}},
      {"hop-by-hop options", 0, "1100010400000000", true, 17, true, true, {}},
      {"hop-by-hop options behind others",
       60,
       "0000010400000000 1100010400000000",
       false,
       0,
       true,
       true,
       {}},
      {"hop-by-hop options twice",
       0,
       "0000010400000000 1100010400000000",
       false,
       0,
       true,
       true,
       {}},
      {"destination options of two units",
       60,
       "1101010c000000000000000000000000",
       true,
       17,
       true,
       true,
       {}},
      {"a home address",
       60,
       "1102 c910 20010db8000000000000000000000001 0102 0000",
       true,
       17,
       false,
       true,
       {}},
      {"options that cannot be read", 60, "11000505 00000000", true, 17, false, true, {}},
      {"nothing left to route", 43, "1100000000000000", true, 17, true, true, {}},
      {"segments left to route", 43, "1100000100000000", true, 17, false, true, {}},
      {"a whole packet with fragment header",
       44,
       "1100000000000007",
       true,
       17,
       true,
       true,
       {7, 0, false}},
      {"a first part", 44, "1100000100000007", true, 17, true, true, {7, 0, true}},
      {"a later part", 44, "1100000900000007", true, 17, true, true, {7, 8, true}},
      {"a later part whose other headers are not there",
       44,
       "3c00000900000007",
       true,
       60,
       true,
       true,
       {7, 8, true}},
      {"the reserved bits of a fragment header",
       44,
       "11ff000600000007",
       true,
       17,
       true,
       true,
       {7, 0, false}},
      {"two fragment headers", 44, "2c00000000000007 1100000000000007", false, 0, true, true, {}},
      {"an end beyond the largest datagram", 44, "1100fff800000007", false, 0, true, true, {}},
      {"eight headers", 60, Headers(8, 17), true, 17, true, true, {}},
      {"nine headers", 60, Headers(9, 17), true, 60, true, false, {}},
      {"a header beyond the packet", 60, "1103000000000000", false, 0, true, true, {}},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = Ipv6Of(row.first, Bytes(16), row.headers);
    const auto packet = ParseIpv6Packet(bytes);
    ASSERT_EQ(packet.has_value(), row.good) << row.description;
    if (!row.good) continue;
    EXPECT_EQ(packet->protocol, row.protocol) << row.description;
    EXPECT_EQ(packet->checksum_covers_addresses, row.checksum_covers_addresses) << row.description;
    EXPECT_EQ(packet->reached_payload, row.reached_payload) << row.description;
    EXPECT_EQ(packet->fragment, row.fragment) << row.description;
    if (row.reached_payload) {
      EXPECT_EQ(packet->payload.size(), 16u) << row.description;
    }
  }
}

TEST(Ipv6PacketTest, Limits) {
  const Bytes whole = Ipv6Of(17, Bytes(16));
  Bytes version = whole, longer = whole, jumbo = Ipv6Of(0, Bytes(16), "1100c20400010000");
  version[0] = 0x50;
  longer[5] = 17;
  WriteWire(be16(), &jumbo[4]);
  const struct {
    const char* description;
    Bytes bytes;
    bool good;
  } kRows[] = {
      {"nothing", {}, false},
      {"a header alone", Ipv6Of(17, {}), true},
      {"a header that is cut", Bytes(whole.begin(), whole.begin() + 39), false},
      {"version 5", version, false},
      {"a payload beyond the bytes", longer, false},
      {"a jumbogram", jumbo, false},
      {"a fragment header that is cut", Ipv6Of(44, Bytes(7)), false},
      {"an extension header that is cut", Ipv6Of(60, Bytes(7)), false},
      {"a part that is no whole units, with others to follow",
       Ipv6Of(44, Bytes(17), "1100000100000007"), false},
      {"the last part, which need not be", Ipv6Of(44, Bytes(17), "1100000800000007"), true},
      {"the last part that fits", Ipv6Of(44, Bytes(7), "1100fff800000007"), true},
      {"a byte beyond it", Ipv6Of(44, Bytes(8), "1100fff800000007"), false},
      {"headers before it count", Ipv6Of(60, Bytes(7), "2c00010400000000 1100fff800000007"), false},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(ParseIpv6Packet(row.bytes).has_value(), row.good) << row.description;
  Bytes padded = whole;
  padded.resize(100, 0xee);
  EXPECT_EQ(ParseIpv6Packet(padded)->bytes.size(), whole.size());
}

TEST(Ipv6PacketTest, RouterAlert) {
  const struct {
    const char* description;
    const char* header;
    bool mld, other;  // whether there is an alert of value 0, of value 1
  } kRows[] = {
      {"as Linux has it", "11 00 05020000 0100", true, false},
      {"as Linux' bridge has it", "11 00 05020000 0000", true, false},
      {"behind padding", "11 00 0100 05020000", true, false},
      {"behind one byte of padding", "11 00 00 05020000 00", true, false},
      {"another value", "11 00 05020001 0100", false, true},
      {"another length", "11 00 0503000000 00", false, false},
      {"another option", "11 00 06020000 0100", false, false},
      {"beyond the options", "11 00 0102 0000 0502", false, false},
      {"behind what cannot be read", "11 00 01ff 05020000", false, false},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = Ipv6Of(0, Bytes(16), row.header);
    const auto packet = ParseIpv6Packet(bytes);
    ASSERT_TRUE(packet.has_value()) << row.description;
    EXPECT_EQ(HasRouterAlert(*packet, 0), row.mld) << row.description;
    EXPECT_EQ(HasRouterAlert(*packet, 1), row.other) << row.description;
  }
  const Bytes without = Ipv6Of(60, Bytes(16), "1100050200000100");
  EXPECT_FALSE(HasRouterAlert(*ParseIpv6Packet(without), 0)) << "in destination options";
}

}  // namespace
}  // namespace eoib
