#include "vswitch/wire/ip/neighbor_discovery.h"

#include <gtest/gtest.h>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {
namespace {

using Bytes = std::vector<uint8_t>;
using OptionType = NdOptionType;

constexpr size_t kIpv6Size = 40, kHopLimitOffset = 7, kNextHeaderOffset = 6,
                 kChecksumOffset = kIpv6Size + 2;

// RFC 4861 §4.3 with Ethernet's option (RFC 2464 §6).
constexpr char kEthernetSolicitation[] =
    "6000000000203afffe8000000000000000005efffe100001ff0200000000000000000001ff100002 "
    "8700625600000000fe8000000000000000005efffe100002 010102005e100001";

std::vector<OptionType> Types(const NdOptions& options) {
  std::vector<OptionType> types;
  for (const NdOption& option : options) types.push_back(option.type);
  return types;
}

// Repairs lengths and checksum after a change of `packet`, so that only the change can make it
// refused.
void Repair(Bytes* packet) {
  const auto message = absl::MakeSpan(*packet).subspan(kIpv6Size);
  WriteWire(be16(static_cast<uint16_t>(message.size())), &(*packet)[4]);
  WriteWire(be16(0), &(*packet)[kChecksumOffset]);
  const uint16_t addresses = OnesComplementSum(absl::MakeConstSpan(*packet).subspan(8, 32));
  const uint16_t sum =
      OnesComplementSum(message, addresses + 58u + static_cast<uint32_t>(message.size()));
  WriteWire(be16(static_cast<uint16_t>(~sum)), &(*packet)[kChecksumOffset]);
}

TEST(NeighborDiscoveryTest, GoldenMessages) {
  const struct {
    const char* description;
    Bytes packet;
    NdType type;
    const char* source;
    const char* destination;
    const char* target;
    std::vector<OptionType> options;
  } kRows[] = {
      {"Linux looks for its own address",
       PacketOf(kLinuxDadSolicitation),
       NdType::kNeighborSolicitation,
       "::",
       "ff02::1:ff00:2",
       "fd00::2",
       {OptionType::kNonce}},
      {"Linux asks",
       PacketOf(kLinuxNeighborSolicitation),
       NdType::kNeighborSolicitation,
       "fd00::1",
       "ff02::1:ff00:2",
       "fd00::2",
       {OptionType::kSourceLinkAddress}},
      {"Linux answers",
       PacketOf(kLinuxNeighborAdvertisement),
       NdType::kNeighborAdvertisement,
       "fd00::2",
       "fd00::1",
       "fd00::2",
       {OptionType::kTargetLinkAddress}},
      {"Linux answers without an option",
       PacketOf(kLinuxNeighborAdvertisementWithoutOptions),
       NdType::kNeighborAdvertisement,
       "fd00::1",
       "fe80::253:494d:4942:101",
       "fd00::1",
       {}},
      {"Linux looks for routers",
       PacketOf(kLinuxRouterSolicitation),
       NdType::kRouterSolicitation,
       "fe80::253:494d:4942:1",
       "ff02::2",
       "::",
       {OptionType::kSourceLinkAddress}},
      {"a router",
       PacketOf(kRfcRouterAdvertisement),
       NdType::kRouterAdvertisement,
       "fe80::202:c903:e:b72",
       "ff02::1",
       "::",
       {OptionType::kSourceLinkAddress, OptionType::kMtu, OptionType::kPrefixInformation}},
      {"a redirect",
       PacketOf(kRfcRedirect),
       NdType::kRedirect,
       "fe80::202:c903:e:b72",
       "fe80::202:c903:e:b73",
       "fe80::202:c903:e:b74",
       {OptionType::kTargetLinkAddress, OptionType::kRedirectedHeader}},
      {"signed",
       PacketOf(kRfcSendSolicitation),
       NdType::kNeighborSolicitation,
       "fe80::202:c903:e:b73",
       "ff02::1:ff0e:b72",
       "fe80::202:c903:e:b72",
       {OptionType::kSourceLinkAddress, OptionType::kCga, OptionType::kTimestamp,
        OptionType::kNonce, OptionType::kRsaSignature}},
      {"on Ethernet",
       FromHex(kEthernetSolicitation),
       NdType::kNeighborSolicitation,
       "fe80::5eff:fe10:1",
       "ff02::1:ff10:2",
       "fe80::5eff:fe10:2",
       {OptionType::kSourceLinkAddress}},
  };
  for (const auto& row : kRows) {
    NdMessage message;
    ASSERT_EQ(ParseNeighborDiscovery(row.packet, &message), NdVerdict::kGood) << row.description;
    EXPECT_EQ(message.type, row.type) << row.description;
    EXPECT_EQ(message.source.ToString(), row.source) << row.description;
    EXPECT_EQ(message.destination.ToString(), row.destination) << row.description;
    EXPECT_EQ(message.target.ToString(), row.target) << row.description;
    EXPECT_EQ(message.message, absl::MakeConstSpan(row.packet).subspan(kIpv6Size))
        << row.description;
    EXPECT_EQ(Types(message.options), row.options) << row.description;
  }
}

TEST(NeighborDiscoveryTest, OtherPackets) {
  const struct {
    const char* description;
    Bytes packet;
  } kRows[] = {
      {"nothing", {}},
      {"a header cut", FromHex("6000000000203aff")},
      {"IPv4", PacketOf(kLinuxPing)},
      {"a ping", PacketOf(kLinuxPing6)},
      {"a report of groups, behind a hop-by-hop header", PacketOf(kLinuxMulticastReport)},
      {"ICMPv6 without a byte",
       FromHex("6000000000003afffe8000000000000000005efffe100001ff0200000000000000000001ff100002")},
      {"a later fragment", FromHex("6000000000102cfffe8000000000000000005efffe100001ff0200000000000"
                                   "000000001ff100002 3a000008000000018700000000000000")},
      {"a header of options that is cut",
       FromHex("60000000000800fffe8000000000000000005efffe100001ff0200000000000000000001ff100002 "
               "3a02000000000000")},
  };
  for (const auto& row : kRows) {
    NdMessage message;
    EXPECT_EQ(ParseNeighborDiscovery(row.packet, &message), NdVerdict::kOther) << row.description;
  }
}

// RFC 4861 §6.1, §7.1, §8.1.
TEST(NeighborDiscoveryTest, BadMessages) {
  const Bytes good = PacketOf(kLinuxNeighborSolicitation);
  const struct {
    const char* description;
    void (*change)(Bytes*);
  } kRows[] = {
      {"from beyond the link", [](Bytes* packet) { (*packet)[kHopLimitOffset] = 254; }},
      {"a wrong checksum", [](Bytes* packet) { (*packet)[kChecksumOffset] ^= 1; }},
      {"a flipped bit", [](Bytes* packet) { packet->back() ^= 1; }},
      {"another destination", [](Bytes* packet) { (*packet)[kIpv6Size - 1] ^= 1; }},
      {"no payload, says the header", [](Bytes* packet) { WriteWire(be16(0), &(*packet)[4]); }},
      {"cut by a byte", [](Bytes* packet) { packet->pop_back(); }},
      {"a code",
       [](Bytes* packet) {
         (*packet)[kIpv6Size + 1] = 1;
         Repair(packet);
       }},
      {"no target",
       [](Bytes* packet) {
         packet->resize(kIpv6Size + 23);
         Repair(packet);
       }},
      {"an option of length 0",
       [](Bytes* packet) {
         (*packet)[kIpv6Size + 25] = 0;
         Repair(packet);
       }},
      {"an option longer than the packet",
       [](Bytes* packet) {
         (*packet)[kIpv6Size + 25] = 4;
         Repair(packet);
       }},
      {"a byte behind the options",
       [](Bytes* packet) {
         packet->push_back(1);
         Repair(packet);
       }},
      {"an option's rest cut",
       [](Bytes* packet) {
         packet->resize(packet->size() - 8);
         Repair(packet);
       }},
  };
  for (const auto& row : kRows) {
    Bytes packet = good;
    row.change(&packet);
    NdMessage message;
    EXPECT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kBad) << row.description;
  }
}

TEST(NeighborDiscoveryTest, BytesBehindThePacketArePadding) {
  Bytes packet = FromHex(kEthernetSolicitation);
  const size_t size = packet.size();
  packet.resize(size + 9, 0xee);
  NdMessage message;
  EXPECT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kGood);
  EXPECT_EQ(message.message.size(), size - kIpv6Size);
}

// Each type is refused if it is one byte shorter than its fixed part, and accepted without options.
TEST(NeighborDiscoveryTest, FixedSizes) {
  const struct {
    uint8_t type;
    size_t size;
  } kRows[] = {{133, 8}, {134, 16}, {135, 24}, {136, 24}, {137, 40}};
  for (const auto& row : kRows) {
    Bytes packet = PacketOf(kLinuxNeighborSolicitation);
    packet[kIpv6Size] = row.type;
    packet.resize(kIpv6Size + row.size);
    std::fill(packet.begin() + kIpv6Size + 4, packet.end(), 0);
    Repair(&packet);
    NdMessage message;
    EXPECT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kGood) << int{row.type};
    EXPECT_EQ(message.options.begin(), message.options.end()) << int{row.type};
    packet.pop_back();
    Repair(&packet);
    EXPECT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kBad) << int{row.type};
  }
}

// A solicitation behind `headers`, the first of which has type `protocol`.
Bytes Behind(uint8_t protocol, const std::string& headers) {
  Bytes packet = FromHex(kEthernetSolicitation);
  const Bytes extension = FromHex(headers);
  packet.insert(packet.begin() + kIpv6Size, extension.begin(), extension.end());
  packet[kNextHeaderOffset] = protocol;
  WriteWire(be16(static_cast<uint16_t>(packet.size() - kIpv6Size)), &packet[4]);
  return packet;
}

// RFC 4861 lets hosts skip extension headers. Here a message behind them is bad: RFC 6980 §5, RFC
// 7113 §2.
TEST(NeighborDiscoveryTest, DivergenceExtensionHeadersHideNothing) {
  std::string many = "3c00010400000000";
  for (int i = 0; i < 3; ++i) many += many;
  const struct {
    const char* description;
    Bytes packet;
    NdVerdict verdict;
  } kRows[] = {
      {"hop-by-hop options", Behind(0, "3a00010400000000"), NdVerdict::kBad},
      {"destination options of two units", Behind(60, "3a01010c000000000000000000000000"),
       NdVerdict::kBad},
      {"a routing header", Behind(43, "3a00000000000000"), NdVerdict::kBad},
      {"a first fragment", Behind(44, "3a00000100000007"), NdVerdict::kBad},
      {"a fragment that is all", Behind(44, "3a00000000000007"), NdVerdict::kBad},
      {"a later fragment, whose content is not visible", Behind(44, "3a00000800000007"),
       NdVerdict::kOther},
      {"two headers", Behind(0, "3c000104000000003a00010400000000"), NdVerdict::kBad},
      {"eight headers, and then UDP", Behind(60, many.substr(0, 7 * 16) + "1100010400000000"),
       NdVerdict::kOther},
      {"nine headers, and then UDP", Behind(60, many + "1100010400000000"), NdVerdict::kBad},
      {"UDP that looks like it", Behind(17, ""), NdVerdict::kOther},
  };
  for (const auto& row : kRows) {
    NdMessage message;
    EXPECT_EQ(ParseNeighborDiscovery(row.packet, &message), row.verdict) << row.description;
  }
}

TEST(NdOptionsTest, Bounds) {
  const struct {
    const char* description;
    const char* hex;
    int options;  // -1: refused
  } kRows[] = {
      {"none", "", 0},
      {"one", "010102005e100001", 1},
      {"two, the second of an unknown type", "010102005e100001 ff020000000000000000000000000000",
       2},
      {"the longest", "0eff", -1},
      {"a type without length", "01", -1},
      {"length 0", "0100000000000000", -1},
      {"length 0 behind a good one", "010102005e100001 0100000000000000", -1},
      {"a unit too long", "010202005e100001", -1},
      {"a byte short", "010102005e1000", -1},
      {"a byte too many", "010102005e100001 01", -1},
  };
  for (const auto& row : kRows) {
    const Bytes bytes = FromHex(row.hex);
    const absl::optional<NdOptions> options = NdOptions::Parse(bytes);
    ASSERT_EQ(options.has_value(), row.options >= 0) << row.description;
    if (!options.has_value()) continue;
    EXPECT_EQ(static_cast<int>(Types(*options).size()), row.options) << row.description;
    EXPECT_EQ(options->bytes(), absl::MakeConstSpan(bytes)) << row.description;
  }
  Bytes longest(8 * 255);
  longest[0] = 14;
  longest[1] = 255;
  EXPECT_EQ(Types(*NdOptions::Parse(longest)).size(), 1u);
  EXPECT_EQ(Types(NdOptions()).size(), 0u);
}

// The first option of a golden message.
NdOption First(const Bytes& packet) {
  NdMessage message;
  EXPECT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kGood);
  return *message.options.begin();
}

TEST(NdOptionTest, LinkAddresses) {
  const Bytes on_ethernet = FromHex(kEthernetSolicitation),
              solicitation = PacketOf(kLinuxNeighborSolicitation),
              advertisement = PacketOf(kLinuxNeighborAdvertisement),
              nonce = PacketOf(kLinuxDadSolicitation);
  EXPECT_EQ(EthernetLinkAddress(First(on_ethernet)), MacAddr::FromUint64(0x0200'5e10'0001));
  EXPECT_FALSE(IpoibLinkAddress(First(on_ethernet)).has_value())
      << "it has the other link's length";
  EXPECT_EQ(IpoibLinkAddress(First(solicitation)), LinuxAdapter(0));
  EXPECT_FALSE(EthernetLinkAddress(First(solicitation)).has_value())
      << "it has the other link's length";
  EXPECT_EQ(IpoibLinkAddress(First(advertisement)), LinuxAdapter(1));
  EXPECT_FALSE(EthernetLinkAddress(First(nonce)).has_value())
      << "it has the right length, but is another option";

  Bytes padded = FromHex("0203 ffff 80000002fe800000000000000253494d49420101");
  EXPECT_EQ(IpoibLinkAddress({OptionType::kTargetLinkAddress, padded}), LinuxAdapter(1))
      << "padding is ignored";
}

TEST(NdOptionTest, Others) {
  const Bytes router = PacketOf(kRfcRouterAdvertisement), dad = PacketOf(kLinuxDadSolicitation);
  NdMessage message;
  ASSERT_EQ(ParseNeighborDiscovery(router, &message), NdVerdict::kGood);
  EXPECT_FALSE(LinkMtu(*message.options.begin()).has_value());
  EXPECT_EQ(LinkMtu(*++message.options.begin()), 2044u);
  EXPECT_EQ(ToHex(Nonce(First(dad))), "60734eee41d4");
  EXPECT_TRUE(Nonce(First(router)).empty());
  const Bytes long_mtu = FromHex("05020000000007fc0000000000000000");
  EXPECT_FALSE(LinkMtu({OptionType::kMtu, long_mtu}).has_value());
  EXPECT_FALSE(LinkMtu(First(dad)).has_value()) << "it has the right length, but is another option";
}

TEST(NdOptionTest, SecureNeighborDiscovery) {
  const Bytes packet = PacketOf(kRfcSendSolicitation);
  NdMessage message;
  ASSERT_EQ(ParseNeighborDiscovery(packet, &message), NdVerdict::kGood);
  std::vector<bool> send;
  for (const NdOption& option : message.options) send.push_back(IsSendOption(option.type));
  EXPECT_EQ(send, (std::vector<bool>{false, true, true, false, true}))
      << "all but the link-layer address and the nonce";
  for (int type = 0; type <= 0xff; ++type) {
    const bool expected = type == 11 || type == 12 || type == 13 || type == 15 || type == 16;
    EXPECT_EQ(IsSendOption(static_cast<OptionType>(type)), expected) << type;
  }
}

TEST(NdOptionTest, WritesLinkAddresses) {
  std::vector<uint8_t> out(32, 0xee);
  ASSERT_TRUE(WriteLinkAddressOption(OptionType::kSourceLinkAddress,
                                     MacAddr::FromUint64(0x0200'5e10'0001), absl::MakeSpan(out)));
  EXPECT_EQ(ToHex(absl::MakeSpan(out).first(9)), "010102005e100001ee");
  ASSERT_TRUE(
      WriteLinkAddressOption(OptionType::kTargetLinkAddress, LinuxAdapter(1), absl::MakeSpan(out)));
  EXPECT_EQ(ToHex(absl::MakeSpan(out).first(25)),
            ToHex(FromHex("0203 0000 00000002fe800000000000000253494d49420101 ee")));

  const auto before = out;
  EXPECT_FALSE(WriteLinkAddressOption(OptionType::kNonce, LinuxAdapter(1), absl::MakeSpan(out)));
  EXPECT_FALSE(WriteLinkAddressOption(OptionType::kMtu, MacAddr(), absl::MakeSpan(out)));
  EXPECT_FALSE(WriteLinkAddressOption(OptionType::kSourceLinkAddress, LinuxAdapter(1),
                                      absl::MakeSpan(out).first(23)));
  EXPECT_FALSE(WriteLinkAddressOption(OptionType::kSourceLinkAddress, MacAddr(),
                                      absl::MakeSpan(out).first(7)));
  EXPECT_EQ(out, before);
}

}  // namespace
}  // namespace eoib
