#include "vswitch/wire/ip/ip_fragment.h"

#include <gtest/gtest.h>

#include <random>

#include "vswitch/wire/ip/golden_ip_for_test.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_for_test.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

FragmentVerdict Fragment(const Bytes& bytes, size_t mtu, std::vector<Bytes>* parts) {
  const auto packet = ParseIpv4Packet(bytes);
  EXPECT_TRUE(packet.has_value());
  return FragmentIpv4(*packet, mtu, [&](absl::Span<const uint8_t> part) {
    parts->emplace_back(part.begin(), part.end());
  });
}

std::vector<std::string> Hex(const std::vector<Bytes>& parts) {
  std::vector<std::string> hex;
  for (const Bytes& part : parts) hex.push_back(ToHex(part));
  return hex;
}

// Decrements the TTL, as a router does.
Bytes CountedDown(Bytes packet) {
  --packet[kIpv4Ttl];
  RepairIpv4(&packet);
  return packet;
}

// Compares with Linux' fragments of the same packets.
TEST(FragmentIpv4Test, CutsAsLinuxDoes) {
  const struct {
    const char* description;
    Bytes packet;
    std::vector<Bytes> parts;
  } kRows[] = {
      {"a whole datagram",
       WithCount(kLinuxUdp4, 600),
       {WithCount(kLinuxUdp4First, 272), WithCount(kLinuxUdp4Second, 280, 272),
        WithCount(kLinuxUdp4Last, 48, 552)}},
      {"a part that others follow",
       WithCount(kLinuxFragment4, 600),
       {WithCount(kLinuxFragment4First, 280), WithCount(kLinuxFragment4Second, 280, 280),
        WithCount(kLinuxFragment4Last, 40, 560)}},
  };
  for (const auto& row : kRows) {
    std::vector<Bytes> parts;
    EXPECT_EQ(Fragment(CountedDown(row.packet), 300, &parts), FragmentVerdict::kDone)
        << row.description;
    EXPECT_EQ(Hex(parts), Hex(row.parts)) << row.description;
  }
}

// RFC 791 §3.1. (Linux replaces options that are not copied by no-operations.)
TEST(FragmentIpv4Test, CopiesOptionsWithTheCopiedFlag) {
  const struct {
    const char* description;
    const char* options;
    const char* later;
  } kRows[] = {
      {"none", "", ""},
      {"options of one byte", "01010101", ""},
      {"record route", "07070800000000 00", ""},
      {"router alert", "94040000", "94040000"},
      {"router alert between others", "01 070708 0a090909 94040000", "94040000"},
      {"one of three bytes", "070400 00 8603ff 00", "8603ff00"},
      {"two of three bytes", "8603ff 8303ee 0000", "8603ff8303ee0000"},
      {"one behind the end", "01 00 94 04", ""},
      {"all that there is room for",
       "8928 0400000000000000000000000000000000000000000000000000000000000000000000000000",
       "8928 0400000000000000000000000000000000000000000000000000000000000000000000000000"},
  };
  for (const auto& row : kRows) {
    std::vector<Bytes> parts;
    EXPECT_EQ(Fragment(Ipv4Of(17, Bytes(200), row.options), 100, &parts), FragmentVerdict::kDone)
        << row.description;
    ASSERT_GE(parts.size(), 3u) << row.description;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto part = ParseIpv4Packet(parts[i]);
      ASSERT_TRUE(part.has_value()) << row.description;
      EXPECT_EQ(ToHex(part->options), ToHex(FromHex(i == 0 ? row.options : row.later)))
          << row.description << ", part " << i;
      EXPECT_LE(parts[i].size(), 100u) << row.description;
    }
  }
}

TEST(FragmentIpv4Test, Verdicts) {
  Bytes keep = Ipv4Of(17, Bytes(200));
  keep[kIpv4Fragment] = 0x40;
  RepairIpv4(&keep);
  const struct {
    const char* description;
    Bytes packet;
    size_t mtu;
    FragmentVerdict verdict;
    size_t parts;
  } kRows[] = {
      {"fits", Ipv4Of(17, Bytes(80)), 100, FragmentVerdict::kDone, 1},
      {"fits, and is not to be cut", keep, 220, FragmentVerdict::kDone, 1},
      {"fits an MTU that is none", Ipv4Of(17, Bytes(8)), 28, FragmentVerdict::kDone, 1},
      {"a byte too large", Ipv4Of(17, Bytes(81)), 100, FragmentVerdict::kDone, 2},
      {"a last part that fits and is of no whole units", Ipv4Of(17, Bytes(163)), 103,
       FragmentVerdict::kDone, 2},
      {"a byte too large, and not to be cut", keep, 219, FragmentVerdict::kDontFragment, 0},
      {"an MTU that is none", Ipv4Of(17, Bytes(81)), 67, FragmentVerdict::kBad, 0},
      {"the smallest MTU", Ipv4Of(17, Bytes(97)), 68, FragmentVerdict::kDone, 3},
      {"the smallest MTU with the longest header",
       Ipv4Of(17, Bytes(24),
              "8928 0400000000000000000000000000000000000000000000000000000000000000000000000000"),
       68, FragmentVerdict::kDone, 3},
      {"an option beyond the header", Ipv4Of(17, Bytes(200), "94050000"), 100,
       FragmentVerdict::kBad, 0},
      {"an option of length 1", Ipv4Of(17, Bytes(200), "94010000"), 100, FragmentVerdict::kBad, 0},
      {"an option without length", Ipv4Of(17, Bytes(200), "01010194"), 100, FragmentVerdict::kBad,
       0},
      {"the largest", Ipv4Of(17, Bytes(65515)), 1500, FragmentVerdict::kDone, 45},
      {"the largest into two", Ipv4Of(17, Bytes(65515)), 65534, FragmentVerdict::kDone, 2},
  };
  for (const auto& row : kRows) {
    std::vector<Bytes> parts;
    EXPECT_EQ(Fragment(row.packet, row.mtu, &parts), row.verdict) << row.description;
    EXPECT_EQ(parts.size(), row.parts) << row.description;
    if (row.parts == 1) {
      EXPECT_EQ(parts[0], row.packet) << row.description;
    }
  }
}

// Fragments, and fragments of fragments, make up the datagram.
TEST(FragmentIpv4Test, FragmentsOfFragmentsAddUp) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Bytes payload(1 + random() % 4000);
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(random());
    const Bytes whole = Ipv4Of(17, payload, round % 2 == 0 ? "94040000" : "");
    const size_t mtu = 68 + random() % 1500, smaller = 68 + random() % (mtu - 67);
    std::vector<Bytes> parts, small;
    ASSERT_EQ(Fragment(whole, mtu, &parts), FragmentVerdict::kDone);
    for (const Bytes& part : parts)
      ASSERT_EQ(Fragment(part, smaller, &small), FragmentVerdict::kDone);
    Bytes together;
    for (const Bytes& part : small) {
      const auto packet = ParseIpv4Packet(part);
      ASSERT_TRUE(packet.has_value());
      EXPECT_EQ(packet->fragment.offset, together.size());
      EXPECT_EQ(packet->fragment.id, 0x1234u);
      together.insert(together.end(), packet->payload.begin(), packet->payload.end());
      EXPECT_EQ(packet->fragment.more, together.size() < payload.size());
      EXPECT_LE(part.size(), smaller);
    }
    EXPECT_EQ(together, payload);
  }
}

}  // namespace
}  // namespace eoib
