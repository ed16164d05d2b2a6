#include "gateway/translation/packet_translation.h"

#include "gateway/translation/translator_test_fixture.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/dhcp4_writer.h"
#include "vswitch/wire/ip/group_report.h"

namespace eoib::translation {
namespace {

class PacketTranslationTest : public TranslatorTest {
 protected:
  SinkForTest::Output One() {
    const auto outputs = sink_.Take();
    EXPECT_EQ(outputs.size(), 1u);
    return outputs.empty() ? SinkForTest::Output() : outputs[0];
  }
  bool Listens(const IpAddr& ip) const {
    const auto group = ip.is_ipv6() ? GroupOf(kLinkForTest.link, ip.ipv6())
                                    : GroupOf(kLinkForTest.link, ip.ipv4());
    return sink_.listening.contains(ToMgid(*group));
  }
};

TEST_F(PacketTranslationTest, UnicastBothWays) {
  Introduce(1, 1);
  for (const Bytes& packet : {Udp4(HostIp(1), PeerIp(1)), Udp6(HostIp6(1), PeerIp6(1))}) {
    HostSends(1, 1, packet);
    const auto out = One();
    EXPECT_EQ(out.kind, OutputKind::kPacket);
    EXPECT_EQ(out.to, PeerAddr(1));
    EXPECT_EQ(out.payload, packet) << "without the frame's padding";
  }
  for (const Bytes& packet : {Udp4(PeerIp(1), HostIp(1)), Udp6(PeerIp6(1), HostIp6(1))}) {
    PeerSends(1, packet);
    const auto out = One();
    EXPECT_EQ(out.destination, HostMac(1));
    EXPECT_EQ(out.source, PeerMac(1));
    EXPECT_EQ(out.payload, packet);
  }
}

// A ping of Linux, as a check from outside of our codec.
TEST_F(PacketTranslationTest, Linux) {
  Introduce(2, 1);
  for (const char* const datagram : {kLinuxPing, kLinuxPing6}) {
    Bytes packet = FromHex(datagram);
    packet.erase(packet.begin(), packet.begin() + kIpoibHeaderSize);
    PeerSends(1, packet);
    const auto out = One();
    EXPECT_EQ(out.payload, packet);
    EXPECT_EQ(out.destination, HostMac(2)) << "10.0.0.2, fd00::2";
  }
}

TEST_F(PacketTranslationTest, Groups) {
  Introduce(1, 1);
  const Ipv4Addr subnet_broadcast = Ip4("10.0.0.255");
  const struct {
    const char* description;
    Bytes packet;
    MacAddr mac;
    IpAddr group;
    bool beyond_link;
  } kRows[] = {
      {"IPv4 of the link", Udp4(HostIp(1), Ip4("224.0.0.251")),
       *MacAddr::Parse("01:00:5e:00:00:fb"), Ip4("224.0.0.251"), false},
      {"IPv4, and 23 bits of it", Udp4(HostIp(1), Ip4("239.129.2.3")),
       *MacAddr::Parse("01:00:5e:01:02:03"), Ip4("239.129.2.3"), true},
      {"IPv6 of the link", Udp6(HostIp6(1), Ip6("ff02::fb")), *MacAddr::Parse("33:33:00:00:00:fb"),
       Ip6("ff02::fb"), false},
      {"IPv6 of a site", Udp6(HostIp6(1), Ip6("ff05::1:3")), *MacAddr::Parse("33:33:00:01:00:03"),
       Ip6("ff05::1:3"), true},
      {"broadcast", Udp4(HostIp(1), Ipv4Addr::Broadcast()), MacAddr::Broadcast(),
       Ipv4Addr::Broadcast(), false},
      {"broadcast of the subnet", Udp4(HostIp(1), subnet_broadcast), MacAddr::Broadcast(),
       Ipv4Addr::Broadcast(), false},
  };
  for (const auto& row : kRows) {
    const bool ipv6 = row.packet[0] >> 4 == 6;
    FromEthernet(Frame(row.mac, HostMac(1), ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4, row.packet));
    auto out = One();
    EXPECT_EQ(out.kind, OutputKind::kGroup) << row.description;
    EXPECT_EQ(out.group, ipv6 ? *GroupOf(kLinkForTest.link, row.group.ipv6())
                              : *GroupOf(kLinkForTest.link, row.group.ipv4()))
        << row.description;
    EXPECT_EQ(out.beyond_link, row.beyond_link) << row.description;
    EXPECT_EQ(out.payload, row.packet) << row.description;
    FromIpoib(ipv6 ? IpoibType::kIpv6 : IpoibType::kIpv4, row.packet, PeerAddr(1), true);
    out = One();
    EXPECT_EQ(out.kind, OutputKind::kFrame) << row.description;
    EXPECT_EQ(out.destination, row.mac) << row.description;
    EXPECT_EQ(out.source, PeerMac(1)) << row.description;
  }
}

TEST_F(PacketTranslationTest, Refused) {
  Introduce(1, 1);
  Bytes bad_sum = Udp4(HostIp(1), PeerIp(1));
  bad_sum[10] ^= 1;
  const struct {
    const char* description;
    Bytes frame;
    Drop drop;
  } kRows[] = {
      {"wrong header checksum", Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, bad_sum),
       Drop::kMalformed},
      {"IPv6 behind IPv4's EtherType",
       Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, Udp6(HostIp6(1), PeerIp6(1))),
       Drop::kMalformed},
      {"from a group",
       Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, Udp4(Ip4("224.0.0.1"), PeerIp(1))),
       Drop::kMalformed},
      {"from everybody",
       Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, Udp4(Ipv4Addr::Broadcast(), PeerIp(1))),
       Drop::kMalformed},
      {"from a MAC address that is a group's",
       Frame(PeerMac(1), MacAddr::Broadcast(), kEtherTypeIpv4, Udp4(HostIp(1), PeerIp(1))),
       Drop::kMalformed},
      {"from a station's MAC address",
       Frame(PeerMac(1), PeerMac(1), kEtherTypeIpv4, Udp4(HostIp(1), PeerIp(1))), Drop::kLoop},
      {"to a MAC address that no station has",
       Frame(HostMac(7), HostMac(1), kEtherTypeIpv4, Udp4(HostIp(1), PeerIp(1))),
       Drop::kUnknownStation},
      {"to another group's MAC address",
       Frame(GroupMac(Ip4("224.0.0.5")), HostMac(1), kEtherTypeIpv4,
             Udp4(HostIp(1), Ip4("224.0.0.6"))),
       Drop::kGroupMismatch},
      {"to a group's MAC address and one host",
       Frame(GroupMac(Ip4("224.0.0.5")), HostMac(1), kEtherTypeIpv4, Udp4(HostIp(1), PeerIp(1))),
       Drop::kGroupMismatch},
      {"to everybody and one host",
       Frame(MacAddr::Broadcast(), HostMac(1), kEtherTypeIpv6, Udp6(HostIp6(1), PeerIp6(1))),
       Drop::kGroupMismatch},
      {"a tag", Frame(PeerMac(1), HostMac(1), kEtherTypeVlan, Bytes(46)), Drop::kNotIp},
      {"LLDP", Frame(PeerMac(1), HostMac(1), 0x88cc, Bytes(46)), Drop::kNotIp},
      {"an 802.3 length", Frame(PeerMac(1), HostMac(1), 0x0026, Bytes(46)), Drop::kNotIp},
      {"a control message", Frame(PeerMac(1), HostMac(1), kEtherTypeControl, Bytes(46)),
       Drop::kControlEthertype},
      {"the other encapsulation", Frame(PeerMac(1), HostMac(1), kEtherTypeAlternative, Bytes(46)),
       Drop::kControlEthertype},
      {"a runt", Bytes(13, 2), Drop::kMalformed},
  };
  for (const auto& row : kRows) {
    const uint64_t before = (*this)[row.drop];
    FromEthernet(row.frame);
    EXPECT_EQ((*this)[row.drop], before + 1) << row.description;
    EXPECT_TRUE(sink_.Take().empty()) << row.description;
  }
}

TEST_F(PacketTranslationTest, RefusedFromIpoib) {
  Introduce(1, 1);
  Introduce(2, 2);
  const Bytes good = Udp4(PeerIp(1), HostIp(1)), stranger = Udp4(Ip4("192.0.2.1"), HostIp(1));
  const struct {
    const char* description;
    Bytes packet;
    absl::optional<IpoibAddress> source;
    Drop drop;
  } kRows[] = {
      {"unknown sender", stranger, absl::nullopt, Drop::kUnknownSource},
      {"from the gateway itself", good, kLinkForTest.own, Drop::kLoop},
      {"from a group", good, IpoibAddress::OfGroup(ToMgid(BroadcastGroup(kLinkForTest.link))),
       Drop::kMalformed},
      {"for another IPoIB host", Udp4(PeerIp(1), PeerIp(2)), PeerAddr(1), Drop::kSameSide},
      {"for the loopback address", Udp4(PeerIp(1), Ip4("127.0.0.1")), PeerAddr(1),
       Drop::kMalformed},
      {"cut", Bytes(good.begin(), good.begin() + 20), PeerAddr(1), Drop::kMalformed},
  };
  for (const auto& row : kRows) {
    const uint64_t before = (*this)[row.drop];
    FromIpoib(IpoibType::kIpv4, row.packet, row.source, false);
    EXPECT_EQ((*this)[row.drop], before + 1) << row.description;
    EXPECT_TRUE(sink_.Take().empty()) << row.description;
  }
  FromIpoib(IpoibType::kIpv4, good, absl::nullopt, false);
  EXPECT_EQ(One().source, PeerMac(1)) << "known by its IP address";
  EXPECT_EQ((*this)[Event::kAttributed], 1u);
}

TEST_F(PacketTranslationTest, ChecksumsAreFinished) {
  Introduce(1, 1);
  const Bytes good = Udp4(HostIp(1), PeerIp(1), 100);
  Bytes frame = Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, good);
  const ChecksumRequest request = AcceptChecksum(absl::MakeSpan(frame), L4Checksum::kUdpOk);
  ASSERT_TRUE(request.needed);
  ASSERT_NE(Bytes(frame.begin() + 14, frame.end()), good);
  translator_.FromEthernet(absl::MakeSpan(frame), request);
  EXPECT_EQ(One().payload, good);
  for (const ChecksumRequest bad : {ChecksumRequest{true, 6, 0}, ChecksumRequest{true, 34, 2000},
                                    ChecksumRequest{true, 0xffff, 6}}) {
    translator_.FromEthernet(absl::MakeSpan(frame), bad);
  }
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_EQ((*this)[Drop::kBadChecksumRequest], 3u);
}

// The packet, the MTUs, and the result.
TEST_F(PacketTranslationTest, TooBigFromEthernet) {
  Introduce(1, 1);
  Bytes df = Udp4(HostIp(1), PeerIp(1), 4000);
  df[6] = 0x40;
  WriteIpv4Checksum(absl::MakeSpan(df).first(20));
  HostSends(1, 1, df);
  auto out = One();
  EXPECT_EQ(out.kind, OutputKind::kFrame);
  EXPECT_EQ(out.destination, HostMac(1));
  EXPECT_EQ(out.source, PeerMac(1));
  auto error = ParseIpv4Packet(out.payload);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->source, PeerIp(1)) << "the gateway has no address of its own";
  EXPECT_EQ(error->destination, HostIp(1));
  EXPECT_EQ(ToHex(error->payload.first(2)), "0304");
  EXPECT_EQ(ReadWire<be16>(&error->payload[6]).value(), 2044);
  EXPECT_EQ(VerifyChecksum(*error), ChecksumVerdict::kRight);

  HostSends(1, 1, Udp6(HostIp6(1), PeerIp6(1), 4000));
  out = One();
  EXPECT_EQ(out.destination, HostMac(1));
  const auto too_big = ParseIpv6Packet(out.payload);
  ASSERT_TRUE(too_big.has_value());
  EXPECT_EQ(too_big->payload[0], 2);
  EXPECT_EQ(ReadWire<be32>(&too_big->payload[4]).value(), 2044u);
  EXPECT_EQ(VerifyChecksum(*too_big), ChecksumVerdict::kRight);
  EXPECT_EQ((*this)[Drop::kTooBig], 2u);
  EXPECT_EQ((*this)[Event::kTooBigSent], 2u);

  const Bytes packet = Udp4(HostIp(1), PeerIp(1), 4000);
  HostSends(1, 1, packet);
  Bytes together;
  for (const auto& fragment : sink_.Take()) {
    EXPECT_EQ(fragment.to, PeerAddr(1));
    const auto part = ParseIpv4Packet(fragment.payload);
    ASSERT_TRUE(part.has_value());
    EXPECT_LE(part->bytes.size(), 2044u);
    EXPECT_EQ(part->fragment.offset, together.size());
    together.insert(together.end(), part->payload.begin(), part->payload.end());
  }
  EXPECT_EQ(together, Bytes(packet.begin() + 20, packet.end()));
  EXPECT_EQ((*this)[Event::kFragmented], 1u);
  EXPECT_EQ((*this)[Event::kFragments], 2u);
}

TEST_F(PacketTranslationTest, TooBigFromIpoib) {
  Introduce(1, 1);
  PeerSends(1, Udp6(PeerIp6(1), HostIp6(1), 1900));
  auto out = One();
  EXPECT_EQ(out.kind, OutputKind::kPacket);
  EXPECT_EQ(out.to, PeerAddr(1));
  const auto too_big = ParseIpv6Packet(out.payload);
  ASSERT_TRUE(too_big.has_value());
  EXPECT_EQ(too_big->destination, PeerIp6(1));
  EXPECT_EQ(ReadWire<be32>(&too_big->payload[4]).value(), 1500u);
  PeerSends(1, Udp4(PeerIp(1), HostIp(1), 1900));
  EXPECT_EQ(sink_.Take().size(), 2u);
  translator_.SetEthernetMtu(4000);
  PeerSends(1, Udp6(PeerIp6(1), HostIp6(1), 1900));
  EXPECT_EQ(One().kind, OutputKind::kFrame);
}

TEST_F(PacketTranslationTest, ErrorsAreLimited) {
  Introduce(1, 1);
  for (int i = 0; i < 200; ++i) HostSends(1, 1, Udp6(HostIp6(1), PeerIp6(1), 4000));
  EXPECT_EQ(sink_.Take().size(), 50u);
  EXPECT_EQ((*this)[Event::kTooBigLimited], 150u);
}

// RFC 1122 §3.2.2: no ICMP error for a broadcast.
TEST_F(PacketTranslationTest, NoErrorsAboutGroups) {
  Introduce(1, 1);
  Bytes df = Udp4(HostIp(1), Ip4("10.0.0.255"), 4000);
  df[6] = 0x40;
  WriteIpv4Checksum(absl::MakeSpan(df).first(20));
  FromEthernet(Frame(MacAddr::Broadcast(), HostMac(1), kEtherTypeIpv4, df));
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_EQ((*this)[Drop::kTooBig], 1u);
}

// IGMPv2 (RFC 2236): a report, then a leave; typed from the RFC.
TEST_F(PacketTranslationTest, ReportsBecomeListening) {
  const auto igmp = [](Ipv4Addr destination, absl::string_view message) {
    Bytes packet = FromHex("46c00020000040000102000000000000000000009404 0000");
    WriteWire(be32(HostIp(1).value()), &packet[12]);
    WriteWire(be32(destination.value()), &packet[16]);
    WriteIpv4Checksum(absl::MakeSpan(packet));
    const Bytes body = FromHex(message);
    packet.insert(packet.end(), body.begin(), body.end());
    return packet;
  };
  const Ipv4Addr group = Ip4("239.1.2.3");
  const Bytes report = igmp(group, "1600f8fa ef010203"),
              leave = igmp(Ip4("224.0.0.2"), "1700f7fa ef010203");
  FromEthernet(Frame(GroupMac(group), HostMac(1), kEtherTypeIpv4, report));
  EXPECT_TRUE(Listens(group));
  EXPECT_EQ(One().group.ipv4, group) << "the report crosses, too: IPoIB's routers have to know";
  FromEthernet(Frame(GroupMac(Ip4("224.0.0.2")), HostMac(1), kEtherTypeIpv4, leave));
  EXPECT_TRUE(Listens(group)) << "perhaps another host wants it";
  Advance(absl::Seconds(1));
  FromEthernet(Frame(GroupMac(group), HostMac(2), kEtherTypeIpv4, report));
  Advance(absl::Seconds(100));
  EXPECT_TRUE(Listens(group)) << "it does";
  FromEthernet(Frame(GroupMac(Ip4("224.0.0.2")), HostMac(1), kEtherTypeIpv4, leave));
  Advance(absl::Seconds(3));
  EXPECT_FALSE(Listens(group));
  FromEthernet(Frame(GroupMac(group), HostMac(1), kEtherTypeIpv4, report));
  Advance(absl::Seconds(259));
  EXPECT_TRUE(Listens(group));
  Advance(absl::Seconds(2));
  EXPECT_FALSE(Listens(group)) << "RFC 3376 §8.4";
  FromIpoib(IpoibType::kIpv4, report, PeerAddr(1), true);
  EXPECT_FALSE(Listens(group)) << "an IPoIB host listens itself";
}

// A host that could send hellos in a gateway's name would silence the gateway.
TEST_F(PacketTranslationTest, NoHostReachesTheGatewaysOwnGroup) {
  Introduce(1, 1);
  const Ipv6Addr group = Ip6("ff12::e01b:6777");
  for (const MacAddr mac : {GroupMac(group), MacAddr::Broadcast()}) {
    FromEthernet(Frame(mac, HostMac(1), kEtherTypeIpv6, Udp6(HostIp6(1), group)));
    EXPECT_TRUE(sink_.Take().empty());
  }
  EXPECT_EQ((*this)[Drop::kHelloGroup], 2u);
  Bytes advertisement;
  BuildAdvertisement(HostIp6(1), false, HostMac(1), &advertisement);
  group.ToWire(&advertisement[24]);
  ASSERT_TRUE(WriteChecksum(absl::MakeSpan(advertisement)));
  FromEthernet(Frame(GroupMac(group), HostMac(1), kEtherTypeIpv6, advertisement));
  EXPECT_TRUE(sink_.Take().empty()) << "nor does neighbour discovery";
  EXPECT_EQ((*this)[Drop::kHelloGroup], 3u);
  FromEthernet(Frame(GroupMac(Ip6("ff02::e01b:6778")), HostMac(1), kEtherTypeIpv6,
                     Udp6(HostIp6(1), Ip6("ff02::e01b:6778"))));
  One();
}

// An MLDv2 report of Linux's ib_ipoib, as a check from outside of our codec; an Ethernet host sends
// the same.
TEST_F(PacketTranslationTest, LinuxReport) {
  Bytes packet = FromHex(kLinuxMulticastReport);
  packet.erase(packet.begin(), packet.begin() + kIpoibHeaderSize);
  EXPECT_FALSE(Listens(Ip6("ff02::1:ff42:1")));
  FromEthernet(Frame(GroupMac(Ip6("ff02::16")), HostMac(1), kEtherTypeIpv6, packet));
  EXPECT_TRUE(Listens(Ip6("ff02::1:ff42:1")));
  EXPECT_TRUE(Listens(Ip6("ff02::1:ff00:1")));
  EXPECT_EQ(One().payload, packet);
}

TEST_F(PacketTranslationTest, DhcpOfEthernetClientsIsAnsweredByBroadcast) {
  Introduce(1, 1);
  Bytes discover(240 + 8);
  discover[0] = 1, discover[1] = 1, discover[2] = 6;
  HostMac(5).ToWire(&discover[28]);
  const Bytes options = FromHex("63825363 350101 ff");
  std::copy(options.begin(), options.end(), discover.begin() + 236);
  Bytes packet(kUdp4HeadersSize + discover.size());
  BuildUdp4({Ipv4Addr(), Ipv4Addr::Broadcast(), 68, 67}, discover, absl::MakeSpan(packet));
  FromEthernet(Frame(MacAddr::Broadcast(), HostMac(5), kEtherTypeIpv4, packet));
  const auto out = One();
  EXPECT_EQ(out.group, BroadcastGroup(kLinkForTest.link));
  const auto crossed = ParseIpv4Packet(out.payload);
  ASSERT_TRUE(crossed.has_value());
  const auto datagram = ParseUdp(*crossed);
  ASSERT_TRUE(datagram.has_value()) << "its checksum is right";
  const auto message = DhcpMessage::Parse(datagram->payload);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->fields().flags, kDhcpBroadcastFlag);
  EXPECT_EQ(message->fields().hardware_type, kDhcpEthernet);
  EXPECT_EQ((*this)[Event::kDhcpBroadcast], 1u);

  // The server has ignored the flag, and sends to the address that the client will have.
  Bytes offer = discover;
  offer[0] = 2;
  WriteWire(be32(HostIp(5).value()), &offer[16]);
  offer[242] = 2;
  packet.assign(kUdp4HeadersSize + offer.size(), 0);
  BuildUdp4({PeerIp(1), HostIp(5), 67, 68}, offer, absl::MakeSpan(packet));
  PeerSends(1, packet);
  EXPECT_EQ(One().destination, HostMac(5));
}

class DhcpTest : public PacketTranslationTest {
 protected:
  // A client's broadcast request of transaction `xid`.
  static Bytes Request(uint32_t xid) {
    Bytes message(236);
    message[0] = 1, message[1] = 1, message[2] = 6;
    WriteWire(be32(xid), &message[4]);
    const Bytes options = FromHex("63825363 350103 ff");
    message.insert(message.end(), options.begin(), options.end());
    return Datagram(Ipv4Addr(), 68, Ipv4Addr::Broadcast(), 67, message);
  }
  // An acknowledgement of 10.0.`subnet`.7/24, with the router 10.0.`subnet`.1.
  static Bytes Ack(uint32_t xid, Ipv4Addr from, Ipv4Addr to, uint16_t port, Ipv4Addr relay,
                   uint8_t subnet) {
    Bytes message(236);
    message[0] = 2, message[1] = 1, message[2] = 6;
    WriteWire(be32(xid), &message[4]);
    HostMac(7).ToWire(&message[28]);
    WriteWire(be32(to.IsBroadcast() ? 0 : to.value()), &message[12]);
    message[16] = 10, message[18] = subnet, message[19] = 7;
    WriteWire(be32(relay.value()), &message[24]);
    Bytes options =
        FromHex("63825363 350105 0104ffffff00 03040a000001 33040000ffff 36040a000065 ff");
    options[17] = subnet;
    message.insert(message.end(), options.begin(), options.end());
    return Datagram(from, 67, to, port, message);
  }
  static Bytes Datagram(Ipv4Addr source, uint16_t from, Ipv4Addr destination, uint16_t to,
                        const Bytes& message) {
    Bytes packet(kUdp4HeadersSize + message.size());
    BuildUdp4({source, destination, from, to}, message, absl::MakeSpan(packet));
    return packet;
  }
  void HostBroadcasts(int n, const Bytes& packet) {
    FromEthernet(Frame(MacAddr::Broadcast(), HostMac(n), kEtherTypeIpv4, packet));
    sink_.Take();
  }
  void PeerBroadcasts(int n, const Bytes& packet) {
    FromIpoib(IpoibType::kIpv4, packet, PeerAddr(n), true);
    sink_.Take();
  }
  OnLink::Where WhereIs(const char* ip) const {
    return translator_.state().on_link.WhereIs(Ip4(ip), clock_.Now());
  }
};

// DHCP replies for another link do not hold here.
TEST_F(DhcpTest, TeachesOfThisLinkOnly) {
  const auto ack = [](Ipv4Addr to, uint16_t port, Ipv4Addr relay, uint8_t subnet) {
    return Ack(1, PeerIp(1), to, port, relay, subnet);
  };
  Introduce(1, 1);
  HostBroadcasts(1, Request(1));
  PeerSends(1, ack(Ip4("10.0.3.1"), 67, Ip4("10.0.3.1"), 3));  // to the relay of another link
  PeerSends(1, ack(Ip4("10.0.4.7"), 68, Ipv4Addr(), 4));       // to a client there that renews
  EXPECT_EQ(WhereIs("10.0.3.9"), OnLink::Where::kUnknown);
  EXPECT_EQ(WhereIs("10.0.4.9"), OnLink::Where::kUnknown);
  EXPECT_FALSE(translator_.state().neighbors.Find(Ip4("10.0.4.7")).has_value()) << "it is not here";
  PeerSends(1, ack(HostIp(1), 68, Ipv4Addr(), 5));
  EXPECT_EQ(WhereIs("10.0.5.9"), OnLink::Where::kHere) << "to a host of this link";
  // A relay's own address on this link is in the reply that it forwards to the client (RFC 1542
  // §4.1.2).
  PeerBroadcasts(1, ack(Ipv4Addr::Broadcast(), 68, PeerIp(1), 6));
  EXPECT_EQ(WhereIs("10.0.6.9"), OnLink::Where::kHere) << "to all";
  sink_.Take();
}

// A host cannot make the gateway believe a prefix by a reply alone, nor by playing the client as
// well.
TEST_F(DhcpTest, TeachesOnlyAClientThatAsked) {
  Introduce(1, 1);
  const auto from_host = [](uint32_t xid) {
    return Ack(xid, HostIp(1), Ipv4Addr::Broadcast(), 68, Ipv4Addr(), 0);
  };
  HostBroadcasts(1, from_host(1));
  EXPECT_EQ(WhereIs("10.0.0.9"), OnLink::Where::kUnknown) << "no request";
  HostBroadcasts(1, Request(1));
  HostBroadcasts(1, from_host(1));
  EXPECT_EQ(WhereIs("10.0.0.9"), OnLink::Where::kUnknown) << "client and server are Ethernet hosts";
  PeerBroadcasts(1, Request(2));
  HostBroadcasts(1, from_host(3));
  EXPECT_EQ(WhereIs("10.0.0.9"), OnLink::Where::kUnknown) << "another transaction";
  Advance(absl::Seconds(61));
  HostBroadcasts(1, from_host(2));
  EXPECT_EQ(WhereIs("10.0.0.9"), OnLink::Where::kUnknown) << "too late";
  EXPECT_EQ((*this)[Event::kUnaskedDhcp], 4u);
  PeerBroadcasts(1, Request(2));
  for (uint32_t xid = 100; xid < 5000; ++xid) HostBroadcasts(1, Request(xid));
  HostBroadcasts(1, from_host(2));
  EXPECT_EQ(WhereIs("10.0.0.9"), OnLink::Where::kHere)
      << "an Ethernet host's requests displace no IPoIB host's";
}

// An IPoIB host cannot place an address at a MAC address by a reply that no Ethernet client has
// asked for.
TEST_F(DhcpTest, UnaskedReplyNamesNoClient) {
  Introduce(1, 1);
  const Bytes reply = Ack(1, PeerIp(1), Ip4("10.0.0.7"), 68, Ipv4Addr(), 0);
  Bytes fresh = reply;
  WriteWire(be32(0), &fresh[kUdp4HeadersSize + 12]);
  ASSERT_TRUE(WriteChecksum(absl::MakeSpan(fresh)));
  PeerSends(1, fresh);
  EXPECT_EQ(translator_.state().neighbors.Find(Ip4("10.0.0.7")), absl::nullopt);
  HostBroadcasts(7, Request(1));
  PeerSends(1, fresh);
  EXPECT_EQ(translator_.state().neighbors.Find(Ip4("10.0.0.7")), HostMac(7));
  sink_.Take();
}

// RFC 4390: an IPoIB client's message has no hardware address, and crosses unchanged.
TEST_F(PacketTranslationTest, DhcpOfIpoibClientsPasses) {
  Bytes discover(240 + 8);
  discover[0] = 1, discover[1] = 32, discover[10] = 0x80;
  const Bytes options = FromHex("63825363 350101 ff");
  std::copy(options.begin(), options.end(), discover.begin() + 236);
  Bytes packet(kUdp4HeadersSize + discover.size());
  BuildUdp4({Ipv4Addr(), Ipv4Addr::Broadcast(), 68, 67}, discover, absl::MakeSpan(packet));
  FromIpoib(IpoibType::kIpv4, packet, PeerAddr(1), true);
  const auto out = One();
  EXPECT_EQ(out.destination, MacAddr::Broadcast());
  EXPECT_EQ(out.source, PeerMac(1));
  EXPECT_EQ(out.payload, packet);
}

}  // namespace
}  // namespace eoib::translation
