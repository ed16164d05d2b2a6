#include "vswitch/wire/ip/ip_checksum.h"

#include <gtest/gtest.h>

#include <random>

#include "vswitch/wire/checksum.h"
#include "vswitch/wire/golden_frames_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_for_test.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

// TCP and UDP over IPv4 also with a sum that is known, which must not matter.
ChecksumVerdict Check(const Bytes& packet) {
  if (packet[0] >> 4 == 4) {
    const Ipv4Packet parsed = *ParseIpv4Packet(packet);
    const bool tcp_or_udp = parsed.protocol == 6 || parsed.protocol == 17;
    EXPECT_EQ(VerifyChecksum(parsed, OnesComplementSum(parsed.bytes)),
              tcp_or_udp ? VerifyChecksum(parsed) : ChecksumVerdict::kUnknown);
    return VerifyChecksum(parsed);
  }
  return VerifyChecksum(*ParseIpv6Packet(packet));
}

constexpr char kTcp[] = "9c400050 00000001 00000002 50180400 00000000 65";  // one byte of data

TEST(UpdateChecksumTest, Examples) {
  const struct {
    const char* description;
    uint16_t checksum, before, after, updated;
  } kRows[] = {
      {"RFC 1624 §4", 0xdd2f, 0x5555, 0x3285, 0x0000},
      {"no change", 0x1234, 0xabcd, 0xabcd, 0x1234},
      {"a carry", 0x0001, 0x0000, 0x0002, 0xfffe},
      {"from all zeros", 0xffff, 0x0000, 0x0001, 0xfffe},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(UpdateChecksum(row.checksum, row.before, row.after), row.updated) << row.description;
  }
}

TEST(UpdateChecksumTest, IsThatOfTheChangedBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    Bytes bytes(40);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const size_t at = random() % 20 * 2;
    const uint16_t checksum = PlainChecksum(bytes), before = ReadWire<be16>(&bytes[at]).value();
    const auto after = static_cast<uint16_t>(random());
    WriteWire(be16(after), &bytes[at]);
    EXPECT_EQ(UpdateChecksum(checksum, before, after), PlainChecksum(bytes)) << i;
  }
}

TEST(UpdateChecksumTest, KeepsAMissingUdpChecksumAndNeverMakesOne) {
  EXPECT_EQ(UpdateUdpChecksum(0, 1, 2), 0) << "none stays none";
  EXPECT_EQ(UpdateUdpChecksum(0xdd2f, 0x5555, 0x3285), 0xffff)
      << "RFC 1624 §4's 0, as RFC 768 has it";
  EXPECT_EQ(UpdateUdpChecksum(0x1234, 0xabcd, 0xabce), 0x1233);
}

TEST(PseudoHeaderSumTest, Examples) {
  const Bytes ipv4 = FromHex("c0000201 c0000202"), ipv4_all = FromHex("c0000201c0000202 0006 0018");
  EXPECT_EQ(PseudoHeaderSum(ipv4, 6, 24), PlainChecksum(ipv4_all) ^ 0xffff);
  const Bytes ipv6 = FromHex("20010db8000000000000000000000001 ff02000000000000000000000000ffff");
  const Bytes ipv6_all = FromHex(
      "20010db8000000000000000000000001 ff02000000000000000000000000ffff 00012345 0000003a");
  EXPECT_EQ(PseudoHeaderSum(ipv6, 58, 0x12345), PlainChecksum(ipv6_all) ^ 0xffff);
}

TEST(VerifyChecksumTest, GoldenPackets) {
  const struct {
    const char* description;
    Bytes packet;
    ChecksumVerdict verdict;
  } kRows[] = {
      {"ICMP", PacketOf(kLinuxPing), ChecksumVerdict::kRight},
      {"ICMPv6", PacketOf(kLinuxPing6), ChecksumVerdict::kRight},
      {"ICMPv6 behind hop-by-hop options", FromHex(kLinuxMld2Join), ChecksumVerdict::kRight},
      {"IGMP", FromHex(kLinuxIgmp3Join), ChecksumVerdict::kRight},
      {"UDP", FromHex(kBusyboxDiscover), ChecksumVerdict::kRight},
      {"UDP without", WithCount(kLinuxUdp4, 600), ChecksumVerdict::kUnknown},
      {"UDP over IPv6", FromHex(kLinuxUnreachable6), ChecksumVerdict::kRight},
      {"a first part", WithCount(kLinuxUdp4First, 272), ChecksumVerdict::kUnknown},
      {"a later part", WithCount(kLinuxUdp4Last, 48), ChecksumVerdict::kUnknown},
      {"a later part of IPv6", FromHex(kLinuxFragment6Last), ChecksumVerdict::kUnknown},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Check(row.packet), row.verdict) << row.description;
    if (row.verdict != ChecksumVerdict::kRight) continue;
    Bytes wrong = row.packet;
    wrong.back() ^= 0x10;
    EXPECT_EQ(Check(wrong), ChecksumVerdict::kWrong) << row.description;
    ASSERT_TRUE(WriteChecksum(absl::MakeSpan(wrong))) << row.description;
    wrong.back() ^= 0x10;
    ASSERT_TRUE(WriteChecksum(absl::MakeSpan(wrong))) << row.description;
    EXPECT_EQ(ToHex(wrong), ToHex(row.packet)) << row.description << ", written again";
  }
}

TEST(VerifyChecksumTest, AcceptsGoldenFrames) {
  int frames = 0;
  for (const GoldenFrame& row : kGoldenFrames) {
    if (row.l4.kind == L4Checksum::kNone) continue;
    Bytes packet = FromHex(row.hex);
    packet.erase(packet.begin(), packet.begin() + row.l4.ip);
    EXPECT_EQ(Check(packet), ChecksumVerdict::kRight) << row.description;
    const Bytes before = packet;
    EXPECT_TRUE(WriteChecksum(absl::MakeSpan(packet))) << row.description;
    EXPECT_EQ(packet, before) << row.description;
    ++frames;
  }
  EXPECT_GT(frames, 5);
}

TEST(VerifyChecksumTest, OtherPackets) {
  const Bytes tcp = FromHex(kTcp);
  const struct {
    const char* description;
    Bytes packet;
    ChecksumVerdict verdict;
    bool writable;
  } kRows[] = {
      {"TCP whose sum is not there", Ipv4Of(6, tcp), ChecksumVerdict::kWrong, true},
      {"TCP over IPv6", Ipv6Of(6, tcp), ChecksumVerdict::kWrong, true},
      {"TCP that is cut", Ipv4Of(6, absl::MakeConstSpan(tcp).first(19)), ChecksumVerdict::kWrong,
       false},
      {"ICMP of zeros", Ipv4Of(1, Bytes(8)), ChecksumVerdict::kWrong, true},
      {"ICMP that is cut", Ipv4Of(1, Bytes(7)), ChecksumVerdict::kWrong, false},
      {"ICMPv6 that is cut", Ipv6Of(58, Bytes(3)), ChecksumVerdict::kWrong, false},
      {"UDP that is cut", Ipv4Of(17, Bytes(7)), ChecksumVerdict::kWrong, false},
      {"UDP without a sum", Ipv4Of(17, FromHex("0001000200080000")), ChecksumVerdict::kUnknown,
       true},
      {"UDP without a sum over IPv6", Ipv6Of(17, FromHex("0001000200080000")),
       ChecksumVerdict::kWrong, true},
      {"UDP shorter than the packet", Ipv4Of(17, FromHex("000100020008000000")),
       ChecksumVerdict::kWrong, false},
      {"UDP longer than the packet", Ipv6Of(17, FromHex("0001000200090001")),
       ChecksumVerdict::kWrong, false},
      {"a protocol that is not known", Ipv4Of(132, Bytes(20)), ChecksumVerdict::kUnknown, false},
      {"a protocol that is not known over IPv6", Ipv6Of(132, Bytes(20)), ChecksumVerdict::kUnknown,
       false},
      {"ICMPv6 over IPv4", Ipv4Of(58, Bytes(20)), ChecksumVerdict::kUnknown, false},
      {"segments left to route", Ipv6Of(43, tcp, "0600000100000000"), ChecksumVerdict::kUnknown,
       false},
      {"a whole packet with fragment header", Ipv6Of(44, tcp, "0600000000000001"),
       ChecksumVerdict::kWrong, true},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Check(row.packet), row.verdict) << row.description;
    Bytes written = row.packet;
    EXPECT_EQ(WriteChecksum(absl::MakeSpan(written)), row.writable) << row.description;
    if (row.writable) {
      EXPECT_EQ(Check(written), ChecksumVerdict::kRight) << row.description;
    }
    if (!row.writable) {
      EXPECT_EQ(written, row.packet) << row.description;
    }
  }
  EXPECT_FALSE(WriteChecksum({}));
  Bytes neither(40, 0x50);
  EXPECT_FALSE(WriteChecksum(absl::MakeSpan(neither)));
}

// RFC 768: a UDP sum of zero is sent as ones; one's complement has two zeros. Other protocols keep
// theirs.
TEST(VerifyChecksumTest, WritesZeroAsOnesForUdpOnly) {
  for (const uint8_t protocol : {uint8_t{17}, uint8_t{6}}) {
    Bytes packet =
        Ipv4Of(protocol, protocol == 17 ? FromHex("00000000000a00000000")
                                        : FromHex("00000000000000000000000000000000000000000000"));
    const size_t field = protocol == 17 ? 26 : 36, free = packet.size() - 2;
    ASSERT_TRUE(WriteChecksum(absl::MakeSpan(packet)));
    const Bytes sum(packet.begin() + static_cast<long>(field),
                    packet.begin() + static_cast<long>(field) + 2);
    // The sum of all else, and so nothing is left.
    std::copy(sum.begin(), sum.end(), packet.begin() + static_cast<long>(free));
    ASSERT_TRUE(WriteChecksum(absl::MakeSpan(packet)));
    EXPECT_EQ(ReadWire<be16>(&packet[field]).value(), protocol == 17 ? 0xffff : 0) << int{protocol};
    EXPECT_EQ(Check(packet), ChecksumVerdict::kRight) << int{protocol};
  }
}

TEST(WriteIpv4ChecksumTest, Example) {
  Bytes header = FromHex(kLinuxUdp4);
  const Bytes right = header;
  header[10] = header[11] = 0xee;
  WriteIpv4Checksum(absl::MakeSpan(header).first(20));
  EXPECT_EQ(header, right);
}

}  // namespace
}  // namespace eoib
