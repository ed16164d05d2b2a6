#include "gateway/translation/nd_translation.h"

#include "gateway/translation/translator_test_fixture.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib::translation {
namespace {

using Type = NdOptionType;

// An IPv6 packet of neighbour discovery: `message` is hexadecimal, from the type on, with a zero
// checksum.
Bytes Nd(const Ipv6Addr& source, const Ipv6Addr& destination, absl::string_view message) {
  Bytes out(40);
  const Bytes body = FromHex(message);
  out.insert(out.end(), body.begin(), body.end());
  Ipv6Wire header;
  header.version_class_flow = 6u << 28;
  header.payload_length = static_cast<uint16_t>(body.size());
  header.next_header = kProtocolIcmpv6;
  header.hop_limit = 255;
  header.source = source.bytes();
  header.destination = destination.bytes();
  WriteWire(header, out.data());
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(out)));
  return out;
}

std::string Hex(const Ipv6Addr& address) { return ToHex(address.bytes()); }
// Link-layer address options of Ethernet host `n`, of IPoIB host `n`, and of the gateway.
std::string MacOption(int type, MacAddr mac) {
  return absl::StrCat("0", type, "01", ToHex(mac.bytes()));
}
std::string AddressOption(int type, const IpoibAddress& address) {
  Bytes bytes(24);
  EXPECT_TRUE(WriteLinkAddressOption(static_cast<Type>(type), address, absl::MakeSpan(bytes)));
  return ToHex(bytes);
}

class NdTranslationTest : public TranslatorTest {
 protected:
  void HostSays(int n, MacAddr to, const Bytes& packet) {
    FromEthernet(Frame(to, HostMac(n), kEtherTypeIpv6, packet));
  }
  void PeerSays(const Bytes& packet, bool group, absl::optional<IpoibAddress> source) {
    FromIpoib(IpoibType::kIpv6, packet, source, group);
  }
  const SinkForTest::Output One() {
    const auto outputs = sink_.Take();
    EXPECT_EQ(outputs.size(), 1u);
    return outputs.empty() ? SinkForTest::Output() : outputs[0];
  }
  const IpoibAddress own_ = kLinkForTest.own;
  const Ipv6Addr router_ = Ip6("fe80::1"), peer_router_ = Ip6("fe80::2");
};

// Each row has a message with all its options, and its translation. The whole message is compared,
// with length and checksum.
TEST_F(NdTranslationTest, GoldenMessagesFromEthernet) {
  Introduce(1, 1);
  const std::string nonce = "0e01010203040506", unknown = "c801aabbccddeeff";
  const Ipv6Addr solicited = SolicitedNodeGroup(PeerIp6(1)), all_routers = Ip6("ff02::2");
  const std::string prefix = "030440c0ffffffffffffffff00000000" + Hex(HostIp6(0));
  const struct {
    const char* description;
    Ipv6Addr source, destination;
    std::string message, expected;
    bool direct;  // unicast to IPoIB host 1
  } kRows[] = {
      {"solicitation with nonce and an unknown option", HostIp6(1), solicited,
       "8700000000000000" + Hex(PeerIp6(1)) + MacOption(1, HostMac(1)) + nonce + unknown,
       "8700000000000000" + Hex(PeerIp6(1)) + AddressOption(1, own_) + nonce + unknown, false},
      {"solicitation of one host", HostIp6(1), PeerIp6(1),
       "8700000000000000" + Hex(PeerIp6(1)) + MacOption(1, HostMac(1)),
       "8700000000000000" + Hex(PeerIp6(1)) + AddressOption(1, own_), true},
      {"look for a duplicate", Ipv6Addr(), solicited, "8700000000000000" + Hex(PeerIp6(1)) + nonce,
       "8700000000000000" + Hex(PeerIp6(1)) + nonce, false},
      {"advertisement for one host", HostIp6(1), PeerIp6(1),
       "8800000060000000" + Hex(HostIp6(1)) + MacOption(2, HostMac(1)),
       "8800000060000000" + Hex(HostIp6(1)) + AddressOption(2, own_), true},
      {"advertisement without address", HostIp6(1), PeerIp6(1),
       "8800000040000000" + Hex(HostIp6(1)), "8800000040000000" + Hex(HostIp6(1)), true},
      {"advertisement for all", HostIp6(1), kAllNodes,
       "8800000020000000" + Hex(HostIp6(1)) + MacOption(2, HostMac(1)),
       "8800000020000000" + Hex(HostIp6(1)) + AddressOption(2, own_), false},
      {"router solicitation", HostIp6(1), all_routers,
       "8500000000000000" + MacOption(1, HostMac(1)), "8500000000000000" + AddressOption(1, own_),
       false},
      {"router advertisement, its MTU above IPoIB's", router_, kAllNodes,
       "86000000400007080000000000000000" + MacOption(1, HostMac(3)) + "0501000000002328" + prefix,
       "86000000400007080000000000000000" + AddressOption(1, own_) + "05010000000005dc" + prefix,
       false},
      {"router advertisement, its MTU below both", router_, kAllNodes,
       "86000000400007080000000000000000"
       "0501000000000500",
       "86000000400007080000000000000000"
       "0501000000000500",
       false},
      {"router advertisement without MTU", router_, kAllNodes, "86000000400007080000000000000000",
       "86000000400007080000000000000000", false},
      {"redirect to an Ethernet router", router_, PeerIp6(1),
       "8900000000000000" + Hex(Ip6("fe80::3")) + Hex(Ip6("2001:db8::1")) +
           MacOption(2, HostMac(3)),
       "8900000000000000" + Hex(Ip6("fe80::3")) + Hex(Ip6("2001:db8::1")) + AddressOption(2, own_),
       true},
      {"redirect to an IPoIB host", router_, PeerIp6(1),
       "8900000000000000" + Hex(PeerIp6(1)) + Hex(PeerIp6(1)) + MacOption(2, PeerMac(1)) +
           "0401000000000000",
       "8900000000000000" + Hex(PeerIp6(1)) + Hex(PeerIp6(1)) + AddressOption(2, PeerAddr(1)) +
           "0401000000000000",
       true},
  };
  for (const auto& row : kRows) {
    HostSays(1, row.direct ? PeerMac(1) : GroupMac(row.destination),
             Nd(row.source, row.destination, row.message));
    const auto out = One();
    EXPECT_EQ(out.kind, row.direct ? OutputKind::kPacket : OutputKind::kGroup) << row.description;
    EXPECT_EQ(ToHex(out.payload), ToHex(Nd(row.source, row.destination, row.expected)))
        << row.description;
    EXPECT_EQ(out.type, kEtherTypeIpv6);
    if (row.direct) {
      EXPECT_EQ(out.to, PeerAddr(1)) << row.description;
    } else {
      EXPECT_EQ(out.group, *GroupOf(kLinkForTest.link, row.destination)) << row.description;
    }
  }
}

TEST_F(NdTranslationTest, GoldenMessagesFromIpoib) {
  Introduce(1, 1);
  const Ipv6Addr solicited = SolicitedNodeGroup(HostIp6(1));
  const struct {
    const char* description;
    Ipv6Addr source, destination;
    std::string message, expected;
    bool direct;  // unicast to Ethernet host 1
  } kRows[] = {
      {"solicitation", PeerIp6(1), solicited,
       "8700000000000000" + Hex(HostIp6(1)) + AddressOption(1, PeerAddr(1)),
       "8700000000000000" + Hex(HostIp6(1)) + MacOption(1, PeerMac(1)), false},
      {"solicitation of one host", PeerIp6(1), HostIp6(1),
       "8700000000000000" + Hex(HostIp6(1)) + AddressOption(1, PeerAddr(1)),
       "8700000000000000" + Hex(HostIp6(1)) + MacOption(1, PeerMac(1)), true},
      {"advertisement for one host", PeerIp6(1), HostIp6(1),
       "8800000060000000" + Hex(PeerIp6(1)) + AddressOption(2, PeerAddr(1)),
       "8800000060000000" + Hex(PeerIp6(1)) + MacOption(2, PeerMac(1)), true},
      {"advertisement without address, as Linux answers one host", PeerIp6(1), HostIp6(1),
       "8800000040000000" + Hex(PeerIp6(1)), "8800000040000000" + Hex(PeerIp6(1)), true},
      {"router advertisement without MTU, from the larger link", peer_router_, kAllNodes,
       "86000000400007080000000000000000" + AddressOption(1, PeerAddr(1)),
       "86000000400007080000000000000000" + MacOption(1, PeerMac(1)) + "05010000000005dc", false},
      {"redirect of an IPoIB router to an Ethernet host, which is at the gateway for it",
       peer_router_, HostIp6(1),
       "8900000000000000" + Hex(HostIp6(1)) + Hex(HostIp6(1)) + AddressOption(2, own_),
       "8900000000000000" + Hex(HostIp6(1)) + Hex(HostIp6(1)) + MacOption(2, HostMac(1)), true},
      {"redirect to somebody unknown: without the address", peer_router_, HostIp6(1),
       "8900000000000000" + Hex(HostIp6(7)) + Hex(HostIp6(8)) + AddressOption(2, PeerAddr(7)),
       "8900000000000000" + Hex(HostIp6(7)) + Hex(HostIp6(8)), true},
  };
  for (const auto& row : kRows) {
    PeerSays(Nd(row.source, row.destination, row.message), !row.direct,
             row.direct ? absl::nullopt : absl::make_optional(PeerAddr(1)));
    const auto out = One();
    EXPECT_EQ(out.kind, OutputKind::kFrame) << row.description;
    EXPECT_EQ(ToHex(out.payload), ToHex(Nd(row.source, row.destination, row.expected)))
        << row.description;
    EXPECT_EQ(out.source, PeerMac(1)) << row.description;
    EXPECT_EQ(out.destination, row.direct ? HostMac(1) : GroupMac(row.destination))
        << row.description;
  }
}

// Packets that Linux's ib_ipoib sends, as a check from outside of our codec.
TEST_F(NdTranslationTest, Linux) {
  const IpoibAddress first(Qpn(2), *Gid::Parse("fe80::253:494d:4942:1"));
  const MacAddr mac = StationMac({first.gid(), 0}, 0);
  for (const char* const datagram :
       {kLinuxDadSolicitation, kLinuxNeighborSolicitation, kLinuxRouterSolicitation}) {
    Bytes packet = FromHex(datagram);
    packet.erase(packet.begin(), packet.begin() + kIpoibHeaderSize);
    Advance(absl::Seconds(1));  // after the first solicitation, which had no answer
    PeerSays(packet, true, first);
    const auto out = One();
    EXPECT_EQ(out.source, mac);
    NdMessage message;
    ASSERT_EQ(ParseNeighborDiscovery(out.payload, &message), NdVerdict::kGood);
    EXPECT_EQ(out.destination, GroupMac(message.destination));
    const auto address = EthernetLinkAddress(message.options.Find(Type::kSourceLinkAddress));
    EXPECT_EQ(address.has_value(), datagram != kLinuxDadSolicitation);
    EXPECT_EQ(address.value_or(mac), mac);
  }
}

TEST_F(NdTranslationTest, SendEndsHere) {
  Bytes packet = FromHex(kRfcSendSolicitation);
  packet.erase(packet.begin(), packet.begin() + kIpoibHeaderSize);
  PeerSays(packet, true, absl::nullopt);
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_EQ((*this)[Drop::kSend], 1u);
}

TEST_F(NdTranslationTest, Refused) {
  Introduce(1, 1);
  const std::string ns = "8700000000000000" + Hex(PeerIp6(1));
  const Ipv6Addr solicited = SolicitedNodeGroup(PeerIp6(1));
  Bytes wrong_sum = Nd(HostIp6(1), solicited, ns);
  wrong_sum[43] ^= 1;
  const struct {
    const char* description;
    MacAddr to;
    Bytes packet;
    Drop drop;
  } kRows[] = {
      {"wrong checksum", GroupMac(solicited), wrong_sum, Drop::kMalformed},
      {"an address option of IPoIB's length", GroupMac(solicited),
       Nd(HostIp6(1), solicited, ns + AddressOption(1, PeerAddr(1))), Drop::kBadLinkOption},
      {"an answer to everybody that claims to be asked for", GroupMac(kAllNodes),
       Nd(HostIp6(1), kAllNodes, "8800000060000000" + Hex(HostIp6(1)) + MacOption(2, HostMac(1))),
       Drop::kMalformed},
      {"a router that is not link-local", GroupMac(kAllNodes),
       Nd(HostIp6(1), kAllNodes, "86000000400007080000000000000000"), Drop::kMalformed},
      {"a look for a duplicate that says where its sender is", GroupMac(solicited),
       Nd(Ipv6Addr(), solicited, ns + MacOption(1, HostMac(1))), Drop::kMalformed},
      {"the target is a group", GroupMac(solicited),
       Nd(HostIp6(1), solicited, "8700000000000000" + Hex(kAllNodes)), Drop::kMalformed},
      {"speaks as a station", GroupMac(solicited),
       Nd(HostIp6(1), solicited, ns + MacOption(1, PeerMac(1))), Drop::kLoop},
      {"to a group's MAC address, but to a host's IP address", GroupMac(solicited),
       Nd(HostIp6(1), PeerIp6(1), ns), Drop::kGroupMismatch},
      {"to an unknown MAC address", HostMac(9), Nd(HostIp6(1), PeerIp6(1), ns),
       Drop::kUnknownStation},
  };
  for (const auto& row : kRows) {
    const uint64_t before = (*this)[row.drop];
    HostSays(1, row.to, row.packet);
    EXPECT_EQ((*this)[row.drop], before + 1) << row.description;
    EXPECT_TRUE(sink_.Take().empty()) << row.description;
  }
  PeerSays(Nd(HostIp6(77), HostIp6(1), "8800000040000000" + Hex(HostIp6(77))), false,
           absl::nullopt);
  EXPECT_EQ((*this)[Drop::kUnknownSource], 1u);
  PeerSays(Nd(PeerIp6(1), kAllNodes, "8800000020000000" + Hex(PeerIp6(1)) + AddressOption(2, own_)),
           true, PeerAddr(1));
  EXPECT_EQ((*this)[Drop::kLoop], 2u) << "an IPoIB host that speaks as the gateway";
  const IpoibAddress other(Qpn(0x666), PeerAddr(1).gid());
  PeerSays(
      Nd(PeerIp6(1), kAllNodes, "8800000020000000" + Hex(PeerIp6(1)) + AddressOption(2, other)),
      true, PeerAddr(2));
  EXPECT_EQ((*this)[Drop::kForgedSender], 1u) << "an IPoIB host that speaks as another port";
  EXPECT_EQ(translator_.state().stations.FindByIp(PeerIp6(1))->address(), PeerAddr(1));
}

// RFC 4861 §8.3: as much of the packet as fits. 1,280 bytes on Ethernet are 1,296 with IPoIB's
// option.
TEST_F(NdTranslationTest, RedirectIsCutToFit) {
  Introduce(1, 1);
  auto link = kLinkForTest;
  link.mtu = 1284;
  translator_.OnLinkState(link);
  const size_t copied = 1280 - 40 - 40 - 8 - 8;
  const std::string copy = absl::StrCat("04", absl::Hex((copied + 8) / 8, absl::kZeroPad2),
                                        "000000000000", std::string(2 * copied, '6'));
  HostSays(1, PeerMac(1),
           Nd(router_, PeerIp6(1),
              "8900000000000000" + Hex(Ip6("fe80::3")) + Hex(Ip6("2001:db8::1")) +
                  MacOption(2, HostMac(3)) + copy));
  const auto out = One();
  EXPECT_EQ(out.payload.size(), 1280u) << "16 bytes more, so two units less";
  NdMessage message;
  EXPECT_EQ(ParseNeighborDiscovery(out.payload, &message), NdVerdict::kGood);
  EXPECT_EQ(IpoibLinkAddress(message.options.Find(Type::kTargetLinkAddress)), own_);
}

TEST_F(NdTranslationTest, AMessageThatGrowsBeyondTheMtuIsDropped) {
  Introduce(1, 1);
  auto link = kLinkForTest;
  link.mtu = 1280;
  translator_.OnLinkState(link);
  std::string options;
  for (int i = 0; i < 151; ++i) options += "c801aabbccddeeff";
  HostSays(1, GroupMac(kAllNodes),
           Nd(HostIp6(1), kAllNodes,
              "8800000020000000" + Hex(HostIp6(1)) + MacOption(2, HostMac(1)) + options));
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_EQ((*this)[Drop::kTooBig], 1u);
}

// RFC 4861 §7.2.5: the owner of an address keeps it against a proxy.
TEST_F(NdTranslationTest, AdvertisementsWithoutOverrideMoveNothing) {
  Introduce(1, 1);
  HostSays(
      2, GroupMac(kAllNodes),
      Nd(HostIp6(1), kAllNodes, "8800000000000000" + Hex(HostIp6(1)) + MacOption(2, HostMac(2))));
  sink_.Take();
  PeerSends(1, Udp6(PeerIp6(1), HostIp6(1)));
  EXPECT_EQ(One().destination, HostMac(1));
  HostSays(
      2, GroupMac(kAllNodes),
      Nd(HostIp6(1), kAllNodes, "8800000020000000" + Hex(HostIp6(1)) + MacOption(2, HostMac(2))));
  sink_.Take();
  PeerSends(1, Udp6(PeerIp6(1), HostIp6(1)));
  EXPECT_EQ(One().destination, HostMac(2));
}

// The gateway has joined the group before the first solicitation for a fresh address.
// See ArpTranslationTest.
TEST_F(NdTranslationTest, AClusterIsReachedAtItsGroupMac) {
  Introduce(1, 1);
  const MacAddr cluster = *MacAddr::Parse("03:bf:00:00:00:07");
  const auto advertise = [&](MacAddr mac) {
    const std::string begin = "8800000060000000" + Hex(HostIp6(7));  // solicited, override
    HostSays(1, PeerMac(1), Nd(HostIp6(7), PeerIp6(1), begin + MacOption(2, mac)));
    return begin;
  };
  const std::string begin = advertise(cluster);
  EXPECT_EQ(One().payload, Nd(HostIp6(7), PeerIp6(1), begin + AddressOption(2, own_)));
  PeerSends(1, Udp6(PeerIp6(1), HostIp6(7)));
  EXPECT_EQ(One().destination, cluster);
  advertise(MacAddr::Broadcast());
  EXPECT_EQ((*this)[Drop::kMalformed], 1u);
  EXPECT_EQ(translator_.state().neighbors.Find(HostIp6(7)), cluster);
}

TEST_F(NdTranslationTest, FreshAddressesAreListenedFor) {
  const auto listens = [&](const Ipv6Addr& ip) {
    return sink_.listening.contains(ToMgid(*GroupOf(kLinkForTest.link, SolicitedNodeGroup(ip))));
  };
  const Ipv6Addr fresh = Ip6("fd00::12:3456");
  EXPECT_FALSE(listens(fresh));
  HostSays(1, GroupMac(SolicitedNodeGroup(fresh)),
           Nd(Ipv6Addr(), SolicitedNodeGroup(fresh), "8700000000000000" + Hex(fresh)));
  EXPECT_TRUE(listens(fresh)) << "while the host still looks whether it is free";
  EXPECT_FALSE(listens(HostIp6(1)));
  Introduce(1, 1);
  EXPECT_TRUE(listens(HostIp6(1))) << "from its advertisement, without MLD";
  Advance(absl::Minutes(10));
  EXPECT_FALSE(listens(fresh)) << "no host reported it";
  EXPECT_TRUE(listens(HostIp6(1))) << "the host is known still";
  Advance(absl::Minutes(30));
  EXPECT_FALSE(listens(HostIp6(1)));
}

}  // namespace
}  // namespace eoib::translation
