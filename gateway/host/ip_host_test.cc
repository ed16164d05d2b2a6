// Packets through a host: input on one side, and the output on the other.
#include "gateway/host/ip_host.h"

#include "gateway/host/find_neighbor_for_test.h"
#include "gateway/host/ip_host_test_fixture.h"
#include "gmock/gmock.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/golden_ipoib_for_test.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib::endpoint {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Drop = EndpointDrop;

// An empty UDP datagram.
Bytes Udp(const char* source, const char* destination) {
  Bytes packet(kUdp4HeadersSize);
  BuildUdp4({.source = Ip4(source),
             .destination = Ip4(destination),
             .source_port = 9,
             .destination_port = 9},
            {}, absl::MakeSpan(packet));
  return packet;
}
// No next header.
Bytes Empty6(const char* source, const char* destination) {
  Bytes packet(sizeof(Ipv6Wire));
  packet[0] = 0x60, packet[6] = 59, packet[7] = 64;
  Ip6(source).ToWire(&packet[8]);
  Ip6(destination).ToWire(&packet[24]);
  return packet;
}

class IpHostTest : public IpHostTestFixture {};

// ---- ARP and neighbour discovery. Received and expected bytes are Linux's, except the flags of
// connected mode, which we do not implement (RFC 4391 §9.1.1: zero on send).

TEST_F(IpHostTest, AnswersArpAsLinuxDoes) {
  Assign({"10.0.0.2/24"});
  ReceiveDatagram(FromHex(kLinuxArpRequest), /*group=*/true);
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  Bytes expected = PacketOf(kLinuxArpReply);
  expected[8] = expected[32] = 0;
  EXPECT_EQ(ToHex(sent[0].payload), ToHex(expected));
  EXPECT_EQ(sent[0].type, IpoibType::kArp);
  EXPECT_EQ(sent[0].to, kPeer);
  // The asker is learned.
  host_.FromTun(Udp("10.0.0.2", "10.0.0.1"));
  EXPECT_EQ(link_.Take().at(0).to, kPeer);
}

TEST_F(IpHostTest, AnswersASolicitationAsLinuxDoes) {
  Assign({"fd00::2/64"});
  ReceiveDatagram(FromHex(kLinuxNeighborSolicitation), /*group=*/true);
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  Bytes expected = PacketOf(kLinuxNeighborAdvertisement);
  expected[40 + 24 + 4] = 0;                 // the flags of the link-layer address,
  expected[42] = 0x8a, expected[43] = 0x23;  // which were 0x8000 in the sum
  EXPECT_EQ(ToHex(sent[0].payload), ToHex(expected));
  EXPECT_EQ(sent[0].type, IpoibType::kIpv6);
  EXPECT_EQ(sent[0].to, kPeer);
}

// Otherwise hosts would stop using it as their default router (RFC 4861 §7.2.5).
TEST_F(IpHostTest, AdvertisesThatAForwardingKernelIsARouter) {
  constexpr size_t kFlags = 40 + 4;  // of the advertisement
  Assign({"fd00::2/64"});
  for (const bool forwards : {false, true}) {
    if (forwards) host_.memberships().SetKernelGroups({IpAddr(kAllRouters6)});
    ReceiveDatagram(FromHex(kLinuxNeighborSolicitation), /*group=*/true);
    const auto sent = link_.Take();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_EQ(sent[0].payload[kFlags], forwards ? 0xe0 : 0x60) << "solicited, override, and";
  }
}

TEST_F(IpHostTest, AnswersDuplicateAddressDetectionToAll) {
  Assign({"fd00::2/64"});
  ReceiveDatagram(FromHex(kLinuxDadSolicitation), /*group=*/true);
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  // RFC 4861 §7.2.4: to ff02::1, override but not solicited.
  EXPECT_EQ(ToHex(sent[0].payload),
            ToHex(FromHex("6000000000303afffd000000000000000000000000000002ff0200000000000000000000"
                          "000000018800c82120000000fd000000000000000000000000000002 "
                          "0203000000000002fe800000000000000253494d49420101")));
  EXPECT_EQ(sent[0].group, GroupOf(kLink, kAllNodes));
}

TEST_F(IpHostTest, RequestsByBroadcastArp) {
  Assign({"10.0.0.2/24"});
  host_.FromTun(Udp("10.0.0.2", "10.0.0.1"));
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(ToHex(sent[0].payload),
            ToHex(FromHex("0020 0800 14 04 0001 00000002fe800000000000000253494d49420101 0a000002 "
                          "0000000000000000000000000000000000000000 0a000001")));
  EXPECT_EQ(sent[0].group, BroadcastGroup(kLink));
  ReceiveDatagram(
      FromHex("08060000 0020 0800 14 04 0002 80000002fe800000000000000253494d49420001 0a000001 "
              "00000002fe800000000000000253494d49420101 0a000002"));
  const auto delivered = link_.Take();
  ASSERT_THAT(delivered, SizeIs(1));
  EXPECT_EQ(delivered[0].payload, Udp("10.0.0.2", "10.0.0.1"));
  EXPECT_EQ(delivered[0].to, kPeer);
}

TEST_F(IpHostTest, SolicitsAtTheSolicitedNodeGroup) {
  Assign({"fd00::2/64"});
  host_.FromTun(Empty6("fd00::2", "fd00::1"));
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].group, GroupOf(kLink, Ip6("ff02::1:ff00:1")));
  EXPECT_FALSE(sent[0].beyond_link);
  NdMessage message;
  ASSERT_EQ(ParseNeighborDiscovery(sent[0].payload, &message), NdVerdict::kGood);
  EXPECT_EQ(message.source.ToString(), kOwnLinkLocal);
  EXPECT_EQ(FindLinkAddress(message, NdOptionType::kSourceLinkAddress), kOwn);
  // Linux's answer to that, except the addresses of the IPv6 header.
  Receive(IpoibType::kIpv6, AdvertisementBytes({.source = Ip6("fd00::1"),
                                                .destination = Ip6(kOwnLinkLocal),
                                                .target = Ip6("fd00::1"),
                                                .solicited = true,
                                                .target_link = kPeer}));
  ASSERT_THAT(link_.sent(), SizeIs(1));
  EXPECT_EQ(link_.Take()[0].to, kPeer);
}

// RFC 4861 §7.2.2: the latest three wait.
TEST_F(IpHostTest, CountsDisplacedPackets) {
  Assign({"10.0.0.2/24"});
  for (int i = 0; i < 5; ++i) host_.FromTun(Udp("10.0.0.2", "10.0.0.9"));
  EXPECT_EQ(host_.neighbors().waiting(), 3u);
  EXPECT_EQ(Dropped(EndpointDrop::kDisplaced), 2u);
  Run(absl::Seconds(10));
  EXPECT_EQ(host_.neighbors().waiting(), 0u);
  EXPECT_EQ(Dropped(EndpointDrop::kUnreachable), 3u);
  EXPECT_EQ(host_.counters().errors, 3u);
}

TEST_F(IpHostTest, UnreachableHostsCauseIcmpErrors) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  host_.FromTun(Udp("10.0.0.2", "10.0.0.9"));
  host_.FromTun(Empty6("fd00::2", "fd00::9"));
  tun_.Take();
  Run(absl::Seconds(5));
  auto written = tun_.Take();
  ASSERT_THAT(written, SizeIs(2));
  std::sort(written.begin(), written.end());  // IPv4 first
  const auto error4 = ParseIpv4Packet(written[0]);
  const auto error6 = ParseIpv6Packet(written[1]);
  ASSERT_TRUE(error4.has_value() && error6.has_value());
  EXPECT_EQ(ToHex(error4->payload.first(2)), "0301");  // host unreachable
  EXPECT_EQ(ToHex(error6->payload.first(2)), "0103");  // address unreachable
  // The source is not an address of this host: the kernel would not accept it.
  EXPECT_EQ(error4->source, Ip4("10.0.0.9"));
  EXPECT_EQ(error4->destination, Ip4("10.0.0.2"));
  EXPECT_EQ(error6->source, Ip6("fd00::9"));
  EXPECT_EQ(Dropped(Drop::kUnreachable), 2);
}

TEST_F(IpHostTest, AHostWithAnotherQueuePairIsFoundAgain) {
  Assign({"10.0.0.2/24"});
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  host_.FromTun(Udp("10.0.0.2", "10.0.0.1"));
  Run(absl::Milliseconds(500));
  link_.Take();
  Run(absl::Seconds(1));  // the unicast probe had no answer
  ASSERT_THAT(link_.sent(), SizeIs(1));
  EXPECT_TRUE(link_.Take()[0].group.has_value());
  const IpoibAddress back(Qpn(0x99), kPeer.gid());
  Receive(IpoibType::kArp,
          ArpBytes({ArpOperation::kReply, back, Ip4("10.0.0.1"), kOwn, Ip4("10.0.0.2")}), false,
          back);
  host_.FromTun(Udp("10.0.0.2", "10.0.0.1"));
  EXPECT_EQ(link_.Take().at(0).to, back);
}

TEST_F(IpHostTest, GoldenAnnouncementsOverride) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  const IpoibAddress back(Qpn(0x99), kPeer.gid());
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  ReceiveDatagram(FromHex(kLinuxNeighborSolicitation), true);
  Receive(
      IpoibType::kArp,
      ArpBytes({ArpOperation::kRequest, back, Ip4("10.0.0.1"), IpoibAddress(), Ip4("10.0.0.1")}),
      true, back);
  Receive(IpoibType::kIpv6,
          AdvertisementBytes({.source = Ip6("fd00::1"),
                              .destination = kAllNodes,
                              .target = Ip6("fd00::1"),
                              .target_link = back}),
          true, back);
  EXPECT_EQ(FindNeighbor(host_.neighbors(), Ip("10.0.0.1"))->address, back);
  EXPECT_EQ(FindNeighbor(host_.neighbors(), Ip("fd00::1"))->address, back);
}

TEST_F(IpHostTest, GoldenMessagesThatGetNoAnswer) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  const struct {
    const char* description;
    const char* datagram;
    Drop drop;
  } kRows[] = {
      {"ARP for somebody else",
       "08060000 0020 0800 14 04 0001 00000002fe800000000000000253494d49420001 0a000001 "
       "0000000000000000000000000000000000000000 0a000003",
       Drop::kNone},
      {"ARP of Ethernet",
       "08060000 0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002 "
       "0000000000000000000000000000000000000000000000000000000000",
       Drop::kArpMalformed},
      {"ARP of a group",
       "08060000 0020 0800 14 04 0001 00ffffffff12401bffff0000000000000000ffffffff 0a000001 "
       "0000000000000000000000000000000000000000 0a000002",
       Drop::kArpMalformed},
      {"ARP from the zero address",
       "08060000 0020 0800 14 04 0001 0000000200000000000000000000000000000000 0a000001 "
       "0000000000000000000000000000000000000000 0a000002",
       Drop::kArpMalformed},
      {"ARP that is cut", "08060000 0020 0800 14 04 0001 00000002fe80", Drop::kArpMalformed},
      {"RARP",
       "80350000 0020 0800 14 04 0003 00000002fe800000000000000253494d49420001 00000000 "
       "00000002fe800000000000000253494d49420001 00000000",
       Drop::kRarp},
      {"our own ARP, brought back by a loop",
       "08060000 0020 0800 14 04 0001 00000002fe800000000000000253494d49420101 0a000001 "
       "0000000000000000000000000000000000000000 0a000002",
       Drop::kNone},
      {"a solicitation with a wrong checksum",
       "86dd0000 6000000000303afffd000000000000000000000000000001ff0200000000000000000001ff000002 "
       "87006c2000000000fd000000000000000000000000000002 "
       "0103000080000002fe800000000000000253494d49420001",
       Drop::kNdMalformed},
      {"a solicitation from beyond the link: hop limit 64",
       "86dd0000 6000000000303a40fd000000000000000000000000000001ff0200000000000000000001ff000002 "
       "87006c1f00000000fd000000000000000000000000000002 "
       "0103000080000002fe800000000000000253494d49420001",
       Drop::kNdMalformed},
      {"IPv4 with a wrong header checksum",
       "08000000 4500001c000000004011ffff0a0000010a000002 0009000900080000", Drop::kIpMalformed},
      {"IPv4 that says to be IPv6",
       "86dd0000 4500001c00000000401166cf0a0000010a000002 0009000900080000", Drop::kIpMalformed},
      {"an empty datagram", "08000000", Drop::kIpMalformed},
      {"IPv6 longer than its datagram",
       "86dd0000 6000000000083b40fd000000000000000000000000000001fd000000000000000000000000000002",
       Drop::kIpMalformed},
  };
  for (const auto& row : kRows) {
    const uint64_t before = row.drop == Drop::kNone ? 0 : Dropped(row.drop);
    ReceiveDatagram(FromHex(row.datagram), true);
    EXPECT_THAT(link_.Take(), IsEmpty()) << row.description;
    EXPECT_THAT(tun_.Take(), IsEmpty()) << row.description;
    if (row.drop != Drop::kNone) {
      EXPECT_EQ(Dropped(row.drop), before + 1) << row.description;
    }
  }
}

TEST_F(IpHostTest, GoldenSolicitationsThatAreInvalid) {  // RFC 4861 §7.1.1, §7.1.2
  Assign({"fd00::2/64"});
  const IpoibAddress& peer = kPeer;
  const Bytes rows[] = {
      SolicitationBytes({.source = {}, .destination = Ip6("fd00::2"), .target = Ip6("fd00::2")}),
      SolicitationBytes({.source = {},
                         .destination = Ip6("ff02::1:ff00:2"),
                         .target = Ip6("fd00::2"),
                         .source_link = peer}),
      SolicitationBytes(
          {.source = Ip6("fd00::1"), .destination = Ip6("fd00::2"), .target = Ip6("ff02::1")}),
      AdvertisementBytes({.source = Ip6("fd00::1"),
                          .destination = kAllNodes,
                          .target = Ip6("fd00::1"),
                          .solicited = true}),
      AdvertisementBytes(
          {.source = Ip6("fd00::1"), .destination = kAllNodes, .target = Ip6("ff02::1")}),
  };
  for (const Bytes& row : rows) {
    const uint64_t before = Dropped(Drop::kNdMalformed);
    Receive(IpoibType::kIpv6, row, true);
    EXPECT_THAT(link_.Take(), IsEmpty()) << ToHex(row);
    EXPECT_EQ(Dropped(Drop::kNdMalformed), before + 1) << ToHex(row);
  }
}

// Only a solicitation to one's own unicast address may lack the link-layer address option (RFC 4861
// §4.3). The answer then needs address resolution first.
TEST_F(IpHostTest, ASolicitationWithoutALinkLayerAddressIsAnsweredAfterResolution) {
  Assign({"fd00::2/64"});
  Receive(IpoibType::kIpv6,
          SolicitationBytes(
              {.source = Ip6("fd00::1"), .destination = Ip6("fd00::2"), .target = Ip6("fd00::2")}));
  const auto sent = link_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].group, GroupOf(kLink, Ip6("ff02::1:ff00:1")));
}

// ---- From the TUN.

TEST_F(IpHostTest, GoldenGroups) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  const struct {
    const char* description;
    Bytes packet;
    IpoibGroup group;
    bool beyond_link;
  } kRows[] = {
      {"a group of the link", Udp("10.0.0.2", "224.0.0.251"), *GroupOf(kLink, Ip4("224.0.0.251")),
       false},
      {"a group beyond it", Udp("10.0.0.2", "239.1.2.3"), *GroupOf(kLink, Ip4("239.1.2.3")), true},
      {"limited broadcast", Udp("10.0.0.2", "255.255.255.255"), BroadcastGroup(kLink), false},
      {"the subnet's broadcast", Udp("10.0.0.2", "10.0.0.255"), BroadcastGroup(kLink), false},
      {"IPv6, of the link", Empty6("fd00::2", "ff02::fb"), *GroupOf(kLink, Ip6("ff02::fb")), false},
      {"IPv6, beyond it", Empty6("fd00::2", "ff05::123"), *GroupOf(kLink, Ip6("ff05::123")), true},
  };
  for (const auto& row : kRows) {
    host_.FromTun(row.packet);
    const auto sent = link_.Take();
    ASSERT_THAT(sent, SizeIs(1)) << row.description;
    EXPECT_EQ(sent[0].group, row.group) << row.description;
    EXPECT_EQ(sent[0].beyond_link, row.beyond_link) << row.description;
    EXPECT_EQ(sent[0].payload, row.packet) << row.description;
  }
}

TEST_F(IpHostTest, PacketsBeyondTheLinkGoToTheRouter) {
  Assign({"10.0.0.2/24"});
  ReceiveDatagram(FromHex(kLinuxArpRequest), true);
  link_.Take();
  routes_.routes[Ip("192.0.2.7")] = Ip("10.0.0.1");
  host_.FromTun(Udp("10.0.0.2", "192.0.2.7"));
  EXPECT_EQ(link_.Take().at(0).to, kPeer);
  routes_.routes[Ip("192.0.2.8")] = absl::nullopt;
  host_.FromTun(Udp("10.0.0.2", "192.0.2.8"));
  EXPECT_THAT(link_.Take(), IsEmpty());
  EXPECT_EQ(Dropped(Drop::kNoRoute), 1);
}

TEST_F(IpHostTest, GoldenDropsFromTheTun) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  host_.addresses().OnKernelAdded(*InterfaceAddress::Parse("10.0.0.3/24"));
  Bytes bad_length = Udp("10.0.0.2", "10.0.0.1");
  bad_length.pop_back();
  Bytes large = Empty6("fd00::2", "fd00::1");
  large.resize(3000);
  large[4] = (3000 - 40) >> 8, large[5] = (3000 - 40) & 0xff;
  const struct {
    const char* description;
    Bytes packet;
    Drop drop;
  } kRows[] = {
      {"nothing", {}, Drop::kNotIp},
      {"version 5", {0x50, 0, 0, 0}, Drop::kNotIp},
      {"a length that is not there", bad_length, Drop::kNotIp},
      {"from an address that may be another's", Udp("10.0.0.3", "10.0.0.1"),
       Drop::kTentativeSource},
      {"a solicitation that is not ours", PacketOf(kLinuxNeighborSolicitation),
       Drop::kKernelDiscovery},
      {"a group of this host", Empty6("fd00::2", "ff01::1"), Drop::kHostDestination},
      {"larger than the link takes", large, Drop::kTooLarge},
  };
  for (const auto& row : kRows) {
    const uint64_t before = Dropped(row.drop);
    host_.FromTun(row.packet);
    EXPECT_THAT(link_.Take(), IsEmpty()) << row.description;
    EXPECT_EQ(Dropped(row.drop), before + 1) << row.description;
  }
  const auto written = tun_.Take();
  ASSERT_THAT(written, SizeIs(1));
  // Packet too big.
  EXPECT_EQ(ToHex(absl::MakeConstSpan(written[0]).subspan(40, 8)).substr(0, 4), "0200");
  EXPECT_EQ(ToHex(absl::MakeConstSpan(written[0]).subspan(44, 4)), "000007fc");  // 2044
}

TEST_F(IpHostTest, NothingGoesOutWhileTheLinkIsDown) {
  host_.FromTun(Udp("10.0.0.2", "10.0.0.1"));
  EXPECT_EQ(Dropped(Drop::kLinkDown), 1);
  Assign({"10.0.0.2/24"});
  EXPECT_EQ(tun_.mtu, 2044);
  LinkDown();
  EXPECT_EQ(tun_.mtu, 0);
  host_.FromTun(Udp("10.0.0.2", "10.0.0.1"));
  EXPECT_EQ(Dropped(Drop::kLinkDown), 2);
  Run(absl::Hours(1));
  EXPECT_THAT(link_.Take(), IsEmpty());
}

TEST_F(IpHostTest, AReportOfTheKernelSaysThatItsGroupsHaveChanged) {
  Assign({"fd00::2/64"});
  int reports = 0;
  host_.OnGroupReport([&] { ++reports; });
  host_.FromTun(PacketOf(kLinuxMulticastReport));
  EXPECT_EQ(reports, 1);
  // So that routers receive the report, too.
  EXPECT_EQ(link_.Take().at(0).group, GroupOf(kLink, Ip6("ff02::16")));
}

// ---- From the link to the TUN.

TEST_F(IpHostTest, IpGoesToTheTun) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  tun_.Take();
  Bytes padded = PacketOf(kLinuxPing);
  padded.resize(padded.size() + 7);
  Receive(IpoibType::kIpv4, padded);
  ReceiveDatagram(FromHex(kLinuxPing6));
  EXPECT_THAT(tun_.Take(), ElementsAre(PacketOf(kLinuxPing), PacketOf(kLinuxPing6)));
  tun_.refusal = Drop::kTunFull;
  ReceiveDatagram(FromHex(kLinuxPing));
  EXPECT_EQ(Dropped(Drop::kTunFull), 1);
}

TEST_F(IpHostTest, GoldenGroupPackets) {
  Assign({"10.0.0.2/24", "fd00::2/64"});
  tun_.Take();
  const struct {
    const char* description;
    Bytes packet;
    bool taken;
  } kRows[] = {
      {"limited broadcast", Udp("10.0.0.1", "255.255.255.255"), true},
      {"the subnet's broadcast", Udp("10.0.0.1", "10.0.0.255"), true},
      {"a group", Udp("10.0.0.1", "239.1.2.3"), true},
      {"one host's, sent to all", Udp("10.0.0.1", "10.0.0.2"), false},
      {"IPv6: a group", Empty6("fd00::1", "ff05::123"), true},
      {"IPv6: one host's, sent to all", Empty6("fd00::1", "fd00::2"), false},
  };
  for (const auto& row : kRows) {
    Receive(row.packet[0] >> 4 == 4 ? IpoibType::kIpv4 : IpoibType::kIpv6, row.packet,
            /*group=*/true);
    EXPECT_EQ(tun_.Take().size(), row.taken ? 1u : 0u) << row.description;
  }
  EXPECT_EQ(Dropped(Drop::kGroupUnicast), 2);
}

// The TUN has no link-layer addresses, and the kernel would drop a message with such an option.
TEST_F(IpHostTest, RouterAdvertisementsGoToTheKernelWithoutLinkLayerAddress) {
  Assign({"fd00::2/64"});
  tun_.Take();
  ReceiveDatagram(FromHex(kRfcRouterAdvertisement), true);
  const auto written = tun_.Take();
  ASSERT_THAT(written, SizeIs(1));
  NdMessage message;
  ASSERT_EQ(ParseNeighborDiscovery(written[0], &message), NdVerdict::kGood);
  EXPECT_EQ(written[0].size(),
            PacketOf(kRfcRouterAdvertisement).size() - kIpoibLinkAddressOptionSize);
  int options = 0;
  for (const NdOption option : message.options) {
    ++options;
    EXPECT_TRUE(option.type == NdOptionType::kMtu ||
                option.type == NdOptionType::kPrefixInformation);
  }
  EXPECT_EQ(options, 2);
  // The router is learned.
  EXPECT_EQ(FindNeighbor(host_.neighbors(), Ip("fe80::202:c903:e:b72"))->address->qpn(), Qpn(0x48));
  ReceiveDatagram(FromHex(kRfcRedirect));
  EXPECT_EQ(FindNeighbor(host_.neighbors(), Ip("fe80::202:c903:e:b74"))->address->qpn(), Qpn(0x49));
  EXPECT_THAT(tun_.Take(), SizeIs(1));
}

TEST_F(IpHostTest, AnInterceptorConsumesPackets) {
  Assign({"10.0.0.2/24"});
  tun_.Take();
  host_.Intercept([](const Ipv4Packet& packet) { return packet.source == Ip4("10.0.0.7"); });
  Receive(IpoibType::kIpv4, Udp("10.0.0.7", "255.255.255.255"), true);
  EXPECT_THAT(tun_.Take(), IsEmpty());
  Receive(IpoibType::kIpv4, Udp("10.0.0.8", "255.255.255.255"), true);
  EXPECT_THAT(tun_.Take(), SizeIs(1));
}

// The peer is silent. An entry learned from an ARP request does not cause a flood of solicitations:
// at most one each second.
TEST_F(IpHostTest, AScanSolicitsOncePerAddressAndSecond) {
  Assign({"10.0.0.2/8"});
  for (uint32_t i = 0; i < 10'000; ++i) {
    Bytes packet(kUdp4HeadersSize);
    BuildUdp4({.source = Ip4("10.0.0.2"), .destination = Ipv4Addr(0x0a10'0000 + i)}, {},
              absl::MakeSpan(packet));
    host_.FromTun(packet);
    host_.FromTun(packet);
  }
  EXPECT_THAT(link_.Take(), SizeIs(10'000));
  EXPECT_LE(host_.neighbors().size(), NeighborCache::Options().limit);
}

// ---- Super-frames and batches

TEST_F(IpHostTest, TheOtherPacketsOfASuperFrameFollowTheFirst) {
  Assign({"10.0.0.2/24"});
  ReceiveDatagram(FromHex(kLinuxArpRequest), /*group=*/true);
  link_.Take();
  for (const char* to : {"10.0.0.1", "10.0.0.9"}) {  // known, and to be resolved
    int made = 0;
    const Bytes packet = Udp("10.0.0.2", to);
    const uint64_t from_tun = host_.counters().from_tun;
    host_.SuperFrameFromTun([&]() -> absl::Span<const uint8_t> {
      if (++made > 3) return {};
      return packet;
    });
    EXPECT_EQ(host_.counters().from_tun, from_tun + 3);
    size_t sent = 0;
    for (const auto& packet_sent : link_.Take())
      sent += packet_sent.payload == packet && packet_sent.to == kPeer ? 1 : 0;
    EXPECT_EQ(sent, to == std::string("10.0.0.1") ? 3u : 0u);
  }
  EXPECT_EQ(host_.neighbors().waiting(), 3u);
}

TEST_F(IpHostTest, TellsTheTunWhichChecksumsTheHcaHasVerified) {
  Assign({"10.0.0.2/24"});
  Bytes packet = Udp("10.0.0.1", "10.0.0.2");
  tun_.continues = true;
  Receive(IpoibType::kIpv4, packet);
  for (const bool checksums_ok : {true, false}) {
    host_.OnPacket(
        {.payload = absl::MakeSpan(packet), .source = kPeer, .checksums_ok = checksums_ok});
  }
  EXPECT_EQ(tun_.continued_ok, (std::vector<bool>{true, false}));
}

TEST_F(IpHostTest, OnlyASegmentOfTheSameSenderContinues) {
  Assign({"10.0.0.2/24"});
  const Bytes packet = Udp("10.0.0.1", "10.0.0.2");
  tun_.continues = true;
  Receive(IpoibType::kIpv4, packet);
  EXPECT_EQ(tun_.batched, 1u);
  Receive(IpoibType::kIpv4, packet);
  EXPECT_EQ(tun_.batched, 1u) << "it continues the first";
  Receive(IpoibType::kIpv4, packet, false, IpoibAddress(Qpn(9), kPeer.gid()));
  EXPECT_EQ(tun_.batched, 2u) << "another sender";
  Receive(IpoibType::kIpv4, packet, false, absl::nullopt);
  Receive(IpoibType::kIpv4, packet, false, absl::nullopt);
  EXPECT_EQ(tun_.batched, 4u) << "an unknown sender";
  Receive(IpoibType::kIpv4, packet, /*group=*/true);
  EXPECT_EQ(tun_.batched, 4u);
  EXPECT_EQ(Dropped(Drop::kGroupUnicast), 1u);
  EXPECT_EQ(tun_.written.size(), 5u);
  EXPECT_EQ(host_.counters().to_tun, 5u);
}

TEST_F(IpHostTest, CountsJoinedPacketsThatAreLost) {
  Assign({"10.0.0.2/24"});
  for (int i = 0; i < 3; ++i) Receive(IpoibType::kIpv4, Udp("10.0.0.1", "10.0.0.2"));
  tun_.lost = 2;
  host_.OnBatchEnd();
  host_.OnBatchEnd();
  EXPECT_EQ(host_.counters().to_tun, 1u);
  EXPECT_EQ(Dropped(Drop::kTunFull), 2u);
}

}  // namespace
}  // namespace eoib::endpoint
