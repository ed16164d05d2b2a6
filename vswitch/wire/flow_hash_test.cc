#include "vswitch/wire/flow_hash.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kSeed = 0x0123'4567'89ab'cdef;

const std::string kFlowMacs = "02005e100002 02005e100001";
const std::string kIpv4 = "0800 45000024 12340000 40110000 c0000201 c0000202";
const std::string kIpv6 =
    "86dd 60000000 0010 1140 20010db8000000000000000000000001 20010db8000000000000000000000002";
const std::string kPorts = "9c400009 00100000 0102030405060708";

// In 60-byte frames: IPv4 at 14, UDP at 34; IPv6 at 14, UDP at 54.
const Bytes kUdp4 = FromHex(kFlowMacs + kIpv4 + kPorts);
const Bytes kUdp6 = FromHex(kFlowMacs + kIpv6 + kPorts);

uint32_t Hash(const Bytes& frame) { return FlowHash(kSeed, frame); }

Bytes With(Bytes frame, size_t at, uint8_t value) {
  frame.at(at) = value;
  return frame;
}

Bytes Tagged(const Bytes& frame, const std::string& tag) {
  Bytes tagged = frame;
  const Bytes bytes = FromHex(tag);
  tagged.insert(tagged.begin() + kMacsSize, bytes.begin(), bytes.end());
  return tagged;
}

// Inserts `extension` after the IPv6 header, whose next header becomes `protocol`.
Bytes Behind(const std::string& extension, uint8_t protocol) {
  Bytes frame = With(kUdp6, 20, protocol);
  const Bytes bytes = FromHex(extension);
  frame.insert(frame.begin() + 54, bytes.begin(), bytes.end());
  return frame;
}

struct Row {
  const char* description;
  Bytes one, other;
};

TEST(FlowHashTest, FieldsThatMakeAFlow) {
  const Row rows[] = {
      {"destination MAC", kUdp4, With(kUdp4, 5, 0x03)},
      {"source MAC", kUdp4, With(kUdp4, 11, 0x03)},
      {"VLAN", Tagged(kUdp4, "8100 0064"), Tagged(kUdp4, "8100 0065")},
      {"VLAN or none", kUdp4, Tagged(kUdp4, "8100 0065")},
      {"MACs of no IP", FromHex(kFlowMacs + "88b6 00"),
       FromHex("02005e100002 02005e100003 88b6 00")},
      {"IPv4 source", kUdp4, With(kUdp4, 29, 9)},
      {"IPv4 destination", kUdp4, With(kUdp4, 33, 9)},
      {"IPv4 protocol", kUdp4, With(kUdp4, 23, 6)},
      {"IPv4 source port", kUdp4, With(kUdp4, 35, 9)},
      {"IPv4 destination port", kUdp4, With(kUdp4, 37, 10)},
      {"IPv4 ports behind two tags", Tagged(kUdp4, "88a8 0001 8100 0002"),
       Tagged(With(kUdp4, 37, 10), "88a8 0001 8100 0002")},
      {"IPv6 source, first half", kUdp6, With(kUdp6, 25, 9)},
      {"IPv6 source, second half", kUdp6, With(kUdp6, 37, 9)},
      {"IPv6 destination, first half", kUdp6, With(kUdp6, 41, 9)},
      {"IPv6 destination, second half", kUdp6, With(kUdp6, 53, 9)},
      {"IPv6 protocol", kUdp6, With(kUdp6, 20, 6)},
      {"IPv6 source port", kUdp6, With(kUdp6, 55, 9)},
      {"IPv6 destination port", kUdp6, With(kUdp6, 57, 10)},
      {"IPv6 port behind hop-by-hop and destination options",
       Behind("3c00010400000000 1100010400000000", 0),
       With(Behind("3c00010400000000 1100010400000000", 0), 71, 9)},
      {"either direction", kUdp4,
       FromHex(
           "02005e100001 02005e100002 0800 45000024 12340000 40110000 c0000202 c0000201 00099c40")},
  };
  for (const Row& row : rows) EXPECT_NE(Hash(row.one), Hash(row.other)) << row.description;
}

TEST(FlowHashTest, FieldsThatDoNot) {
  const Row rows[] = {
      {"priority of the tag", Tagged(kUdp4, "8100 0064"), Tagged(kUdp4, "8100 e064")},
      {"a priority tag or none", kUdp4, Tagged(kUdp4, "8100 2000")},
      {"IPv4 id, time to live and checksum", kUdp4, With(With(With(kUdp4, 19, 9), 22, 9), 25, 9)},
      {"IPv4 class", kUdp4, With(kUdp4, 15, 0xb8)},
      {"IPv4 length", kUdp4, With(kUdp4, 17, 99)},
      {"do not fragment", kUdp4, With(kUdp4, 20, 0x40)},
      {"UDP length and checksum", kUdp4, With(With(kUdp4, 39, 9), 41, 9)},
      {"payload", kUdp4, With(kUdp4, 49, 9)},
      {"IPv6 flow label and hop limit", kUdp6, With(With(kUdp6, 17, 9), 21, 9)},
      {"payload of a protocol without ports", With(kUdp4, 23, 47),
       With(With(kUdp4, 23, 47), 35, 9)},
      {"payload of no IP", FromHex(kFlowMacs + "0806 01"), FromHex(kFlowMacs + "0806 02")},
  };
  for (const Row& row : rows) EXPECT_EQ(Hash(row.one), Hash(row.other)) << row.description;
}

// The first fragment has ports, where a later one has payload. Behind an IPv6 fragment header the
// protocols may also differ.
TEST(FlowHashTest, FragmentsOfADatagramShareAFlow) {
  const Bytes other = FromHex("0304050607080910");
  const auto later = [&other](Bytes frame, size_t l4) {
    std::copy(other.begin(), other.end(), frame.begin() + l4);
    return frame;
  };
  const Row rows[] = {
      {"IPv4", With(kUdp4, 20, 0x20), later(With(kUdp4, 20, 0x20), 34)},
      {"IPv4, the last", With(kUdp4, 20, 0x20), later(With(kUdp4, 21, 0xb9), 34)},
      {"IPv6", Behind("1100000100000007", 44), later(Behind("1100020100000007", 44), 62)},
      {"IPv6, the last, which says otherwise of its protocol", Behind("1100000100000007", 44),
       later(Behind("3c00020000000007", 44), 62)},
      {"IPv6, behind options", Behind("2c00010400000000 1100000100000007", 0),
       later(Behind("2c00010400000000 1100020100000007", 0), 70)},
  };
  for (const Row& row : rows) EXPECT_EQ(Hash(row.one), Hash(row.other)) << row.description;
  EXPECT_NE(Hash(With(kUdp4, 20, 0x20)), Hash(With(With(kUdp4, 20, 0x20), 33, 9)))
      << "between other hosts the hash differs";
  EXPECT_NE(Hash(Behind("1100000100000007", 44)),
            Hash(With(Behind("1100000100000007", 44), 53, 9)));
}

// Nothing is read beyond the end of a truncated frame: the bytes are in memory of exact size.
TEST(FlowHashTest, TruncatedFrames) {
  const Bytes whole[] = {kUdp4,
                         kUdp6,
                         Tagged(kUdp4, "88a8 0001 8100 0002"),
                         Behind("3c00010400000000 1100010400000000", 0),
                         With(kUdp4, 14, 0x4f),
                         With(kUdp4, 14, 0x41),
                         Behind("11ff010400000000", 60)};
  for (const Bytes& frame : whole) {
    for (size_t size = 0; size <= frame.size(); ++size) {
      const Bytes cut(frame.begin(), frame.begin() + size);
      EXPECT_EQ(Hash(cut), Hash(Bytes(cut)));
    }
  }
  EXPECT_EQ(Hash(Bytes(kUdp4.begin(), kUdp4.begin() + 37)),
            Hash(With(Bytes(kUdp4.begin(), kUdp4.begin() + 37), 35, 9)))
      << "half of the ports are none";
}

TEST(FlowHashTest, AnotherSeedSpreadsFlowsDifferently) {
  size_t same = 0;
  for (int i = 0; i < 256; ++i) {
    const Bytes frame = With(kUdp4, 35, static_cast<uint8_t>(i));
    same += FlowHash(1, frame) % 64 == FlowHash(2, frame) % 64;
  }
  EXPECT_LT(same, 32u) << "4 by chance";
}

// In practice flows differ in a few low bits. Chi-squared of 64 cells has mean 63 and standard
// deviation 11.
TEST(FlowHashTest, FlowsSpreadEvenlyInEachByteOfTheHash) {
  struct Kind {
    const char* description;
    std::function<Bytes(int)> frame;
  };
  const auto in_two_bytes = [](const Bytes& frame, size_t at, int i) {
    return With(With(frame, at, static_cast<uint8_t>(i >> 8)), at + 1, static_cast<uint8_t>(i));
  };
  const Kind kinds[] = {
      {"source ports", [&](int i) { return in_two_bytes(kUdp4, 34, i); }},
      {"every second source port, as Linux gives them out",
       [&](int i) { return in_two_bytes(kUdp4, 34, 2 * i); }},
      {"IPv4 addresses", [&](int i) { return in_two_bytes(kUdp4, 28, i); }},
      {"IPv6 addresses", [&](int i) { return in_two_bytes(kUdp6, 52, i); }},
      {"source MACs", [&](int i) { return in_two_bytes(FromHex(kFlowMacs + "88b6 00"), 10, i); }},
      {"VLANs", [&](int i) { return in_two_bytes(Tagged(kUdp4, "8100 0000"), 14, i % 4095); }},
  };
  for (const Kind& kind : kinds) {
    for (int shift : {0, 8, 16, 24}) {
      std::array<int, 64> cells{};
      constexpr int kFlows = 4000;
      for (int i = 0; i < kFlows; ++i) ++cells[Hash(kind.frame(i)) >> shift & 63];
      double chi_squared = 0;
      for (int count : cells)
        chi_squared += (count - kFlows / 64.0) * (count - kFlows / 64.0) / (kFlows / 64.0);
      EXPECT_LT(chi_squared, 63 + 6 * 11) << kind.description << ", bits from " << shift;
    }
  }
}

}  // namespace
}  // namespace eoib
