#include "gateway/translation/arp_translation.h"

#include "gateway/translation/translator_test_fixture.h"
#include "vswitch/wire/golden_ipoib_for_test.h"

namespace eoib::translation {
namespace {

class ArpTranslationTest : public TranslatorTest {
 protected:
  // The only output, as ARP.
  EthernetArp OneFrame(MacAddr destination, MacAddr source, uint16_t ethertype = kEtherTypeArp) {
    const auto outputs = sink_.Take();
    EXPECT_EQ(outputs.size(), 1u);
    if (outputs.size() != 1) return {};
    EXPECT_EQ(outputs[0].kind, OutputKind::kFrame);
    EXPECT_EQ(outputs[0].destination, destination);
    EXPECT_EQ(outputs[0].source, source);
    EXPECT_EQ(outputs[0].type, ethertype);
    EXPECT_EQ(outputs[0].payload.size(), EthernetArp::kSize);
    return ParseEthernetArp(outputs[0].payload).value_or(EthernetArp());
  }
  IpoibArp OnePacket(absl::optional<IpoibAddress> to, IpoibType type = IpoibType::kArp) {
    const auto outputs = sink_.Take();
    EXPECT_EQ(outputs.size(), 1u);
    if (outputs.size() != 1) return {};
    EXPECT_EQ(outputs[0].kind, to.has_value() ? OutputKind::kPacket : OutputKind::kGroup);
    EXPECT_EQ(outputs[0].to, to.value_or(IpoibAddress()));
    EXPECT_EQ(outputs[0].group, to.has_value() ? IpoibGroup() : BroadcastGroup(kLinkForTest.link));
    EXPECT_FALSE(outputs[0].beyond_link);
    EXPECT_EQ(outputs[0].type, static_cast<uint16_t>(type));
    EXPECT_EQ(outputs[0].payload.size(), IpoibArp::kSize);
    return ParseIpoibArp(outputs[0].payload).value_or(IpoibArp());
  }
  void HostSays(const EthernetArp& arp, MacAddr to, uint16_t type = kEtherTypeArp) {
    FromEthernet(Frame(to, arp.sender, type, ArpBytes(arp)));
  }
  void PeerSays(const IpoibArp& arp, bool group, IpoibType type = IpoibType::kArp) {
    FromIpoib(type, ArpBytes(arp), absl::nullopt, group);
  }
  const IpoibAddress own_ = kLinkForTest.own;
};

TEST_F(ArpTranslationTest, RequestFromEthernet) {
  HostAsks(1, PeerIp(1));
  EXPECT_EQ(OnePacket(absl::nullopt),
            (IpoibArp{ArpOperation::kRequest, own_, HostIp(1), IpoibAddress(), PeerIp(1)}));
  // The reply came without a GRH; its body names the sender.
  PeerSays({ArpOperation::kReply, PeerAddr(1), PeerIp(1), own_, HostIp(1)}, false);
  EXPECT_EQ(OneFrame(HostMac(1), PeerMac(1)),
            (EthernetArp{ArpOperation::kReply, PeerMac(1), PeerIp(1), HostMac(1), HostIp(1)}));
  EXPECT_TRUE((PeerMac(1).bytes()[0] & 3) == 2) << "locally administered, no group";
  EXPECT_EQ((*this)[Event::kArp], 2u);
}

TEST_F(ArpTranslationTest, RequestFromIpoib) {
  PeerAsks(1, HostIp(1));
  EXPECT_EQ(OneFrame(MacAddr::Broadcast(), PeerMac(1)),
            (EthernetArp{ArpOperation::kRequest, PeerMac(1), PeerIp(1), MacAddr(), HostIp(1)}));
  HostSays({ArpOperation::kReply, HostMac(1), HostIp(1), PeerMac(1), PeerIp(1)}, PeerMac(1));
  EXPECT_EQ(OnePacket(PeerAddr(1)),
            (IpoibArp{ArpOperation::kReply, own_, HostIp(1), PeerAddr(1), PeerIp(1)}));
}

// Packets that Linux's ib_ipoib sends, as a check from outside of our codec.
TEST_F(ArpTranslationTest, Linux) {
  const IpoibAddress first(Qpn(2), *Gid::Parse("fe80::253:494d:4942:1"));
  const MacAddr mac = StationMac({first.gid(), 0}, 0);
  Bytes request = FromHex(kLinuxArpRequest);
  request.erase(request.begin(), request.begin() + kIpoibHeaderSize);
  FromIpoib(IpoibType::kArp, request, first, true);
  EXPECT_EQ(
      OneFrame(MacAddr::Broadcast(), mac),
      (EthernetArp{ArpOperation::kRequest, mac, Ip4("10.0.0.1"), MacAddr(), Ip4("10.0.0.2")}));
  Bytes gratuitous = FromHex(kLinuxArpGratuitous);
  gratuitous.erase(gratuitous.begin(), gratuitous.begin() + kIpoibHeaderSize);
  FromIpoib(IpoibType::kArp, gratuitous, first, true);
  EXPECT_EQ(OneFrame(MacAddr::Broadcast(), mac),
            (EthernetArp{ArpOperation::kRequest, mac, Ip4("10.0.0.1"), MacAddr::Broadcast(),
                         Ip4("10.0.0.1")}));
}

// RFC 1122 §2.3.2.1: hosts revalidate a neighbour by unicast; the request must not become a
// broadcast.
TEST_F(ArpTranslationTest, UnicastStaysUnicast) {
  Introduce(1, 1);
  HostSays({ArpOperation::kRequest, HostMac(1), HostIp(1), PeerMac(1), PeerIp(1)}, PeerMac(1));
  EXPECT_EQ(OnePacket(PeerAddr(1)),
            (IpoibArp{ArpOperation::kRequest, own_, HostIp(1), PeerAddr(1), PeerIp(1)}));
  PeerSays({ArpOperation::kRequest, PeerAddr(1), PeerIp(1), own_, HostIp(1)}, false);
  EXPECT_EQ(OneFrame(HostMac(1), PeerMac(1)),
            (EthernetArp{ArpOperation::kRequest, PeerMac(1), PeerIp(1), HostMac(1), HostIp(1)}));
  PeerSays({ArpOperation::kRequest, PeerAddr(1), PeerIp(1), own_, HostIp(7)}, false);
  EXPECT_EQ(OneFrame(MacAddr::Broadcast(), PeerMac(1)),
            (EthernetArp{ArpOperation::kRequest, PeerMac(1), PeerIp(1), MacAddr(), HostIp(7)}))
      << "a gateway that has forgotten the target asks everybody";
}

// RFC 5227: the reply to a probe does not name its destination.
TEST_F(ArpTranslationTest, Probes) {
  for (const int requester : {1, 2}) {
    HostSays({ArpOperation::kRequest, HostMac(requester), Ipv4Addr(), MacAddr(), PeerIp(1)},
             MacAddr::Broadcast());
    EXPECT_EQ(OnePacket(absl::nullopt),
              (IpoibArp{ArpOperation::kRequest, own_, Ipv4Addr(), IpoibAddress(), PeerIp(1)}));
  }
  PeerSays({ArpOperation::kReply, PeerAddr(1), PeerIp(1), own_, Ipv4Addr()}, false);
  const auto answers = sink_.Take();
  ASSERT_EQ(answers.size(), 2u) << "two want the address";
  EXPECT_EQ(answers[0].destination, HostMac(1));
  EXPECT_EQ(answers[1].destination, HostMac(2));
  clock_.Advance(absl::Seconds(6));
  PeerSays({ArpOperation::kReply, PeerAddr(1), PeerIp(1), own_, Ipv4Addr()}, false);
  EXPECT_TRUE(sink_.outputs.empty());
  EXPECT_EQ((*this)[Drop::kUnknownAsker], 1u);

  PeerSays({ArpOperation::kRequest, PeerAddr(2), Ipv4Addr(), IpoibAddress(), HostIp(1)}, true);
  EXPECT_EQ(OneFrame(MacAddr::Broadcast(), PeerMac(2)),
            (EthernetArp{ArpOperation::kRequest, PeerMac(2), Ipv4Addr(), MacAddr(), HostIp(1)}));
  HostSays({ArpOperation::kReply, HostMac(1), HostIp(1), PeerMac(2), Ipv4Addr()}, PeerMac(2));
  EXPECT_EQ(OnePacket(PeerAddr(2)),
            (IpoibArp{ArpOperation::kReply, own_, HostIp(1), PeerAddr(2), Ipv4Addr()}));
}

TEST_F(ArpTranslationTest, GratuitousOnes) {
  HostSays({ArpOperation::kReply, HostMac(1), HostIp(1), MacAddr::Broadcast(), HostIp(1)},
           MacAddr::Broadcast());
  const IpoibAddress broadcast = IpoibAddress::OfGroup(ToMgid(BroadcastGroup(kLinkForTest.link)));
  EXPECT_EQ(OnePacket(absl::nullopt),
            (IpoibArp{ArpOperation::kReply, own_, HostIp(1), broadcast, HostIp(1)}));
  PeerSays({ArpOperation::kReply, PeerAddr(1), PeerIp(1), PeerAddr(1), PeerIp(1)}, true);
  EXPECT_EQ(OneFrame(MacAddr::Broadcast(), PeerMac(1)),
            (EthernetArp{ArpOperation::kReply, PeerMac(1), PeerIp(1), PeerMac(1), PeerIp(1)}));
}

// RFC 903. All Ethernet clients have the gateway's address, so an IPoIB server cannot tell them
// apart; but its reply reaches the client.
TEST_F(ArpTranslationTest, Reverse) {
  HostSays({ArpOperation::kReverseRequest, HostMac(1), Ipv4Addr(), HostMac(1), Ipv4Addr()},
           MacAddr::Broadcast(), kEtherTypeRarp);
  EXPECT_EQ(OnePacket(absl::nullopt, IpoibType::kRarp),
            (IpoibArp{ArpOperation::kReverseRequest, own_, Ipv4Addr(), own_, Ipv4Addr()}));
  PeerSays({ArpOperation::kReverseReply, PeerAddr(1), PeerIp(1), own_, HostIp(1)}, false,
           IpoibType::kRarp);
  EXPECT_EQ(
      OneFrame(HostMac(1), PeerMac(1), kEtherTypeRarp),
      (EthernetArp{ArpOperation::kReverseReply, PeerMac(1), PeerIp(1), HostMac(1), HostIp(1)}));
  PeerSays({ArpOperation::kReverseRequest, PeerAddr(2), Ipv4Addr(), PeerAddr(2), Ipv4Addr()}, true,
           IpoibType::kRarp);
  EXPECT_EQ(
      OneFrame(MacAddr::Broadcast(), PeerMac(2), kEtherTypeRarp),
      (EthernetArp{ArpOperation::kReverseRequest, PeerMac(2), Ipv4Addr(), PeerMac(2), Ipv4Addr()}));
  HostSays({ArpOperation::kReverseReply, HostMac(1), HostIp(1), PeerMac(2), PeerIp(2)}, PeerMac(2),
           kEtherTypeRarp);
  EXPECT_EQ(OnePacket(PeerAddr(2), IpoibType::kRarp),
            (IpoibArp{ArpOperation::kReverseReply, own_, HostIp(1), PeerAddr(2), PeerIp(2)}));
}

TEST_F(ArpTranslationTest, Refused) {
  Introduce(1, 1);
  const auto ethernet = [&](const EthernetArp& arp, MacAddr source, uint16_t type) {
    FromEthernet(Frame(MacAddr::Broadcast(), source, type, ArpBytes(arp)));
  };
  const EthernetArp good{ArpOperation::kRequest, HostMac(1), HostIp(1), MacAddr(), PeerIp(1)};
  const IpoibArp good_ipoib{ArpOperation::kRequest, PeerAddr(1), PeerIp(1), IpoibAddress(),
                            HostIp(1)};
  const struct {
    const char* description;
    std::function<void()> send;
    Drop drop;
  } kRows[] = {
      {"RARP behind ARP's EtherType",
       [&] {
         auto arp = good;
         arp.operation = ArpOperation::kReverseRequest;
         ethernet(arp, HostMac(1), kEtherTypeArp);
       },
       Drop::kMalformed},
      {"hardware of the other side",
       [&] {
         FromEthernet(Frame(MacAddr::Broadcast(), HostMac(1), kEtherTypeArp, ArpBytes(good_ipoib)));
       },
       Drop::kMalformed},
      {"the sender is the broadcast address",
       [&] {
         auto arp = good;
         arp.sender = MacAddr::Broadcast();
         ethernet(arp, HostMac(1), kEtherTypeArp);
       },
       Drop::kMalformed},
      {"the sender's IP address is a group's",
       [&] {
         auto arp = good;
         arp.sender_ip = Ip4("224.0.0.1");
         ethernet(arp, HostMac(1), kEtherTypeArp);
       },
       Drop::kMalformed},
      {"an Ethernet host speaks as a station",
       [&] {
         auto arp = good;
         arp.sender = PeerMac(1);
         ethernet(arp, HostMac(1), kEtherTypeArp);
       },
       Drop::kLoop},
      {"a station's MAC address on Ethernet", [&] { ethernet(good, PeerMac(1), kEtherTypeArp); },
       Drop::kLoop},
      {"to a MAC address that no station has",
       [&] { FromEthernet(Frame(HostMac(9), HostMac(1), kEtherTypeArp, ArpBytes(good))); },
       Drop::kUnknownStation},
      {"an IPoIB host speaks as the gateway",
       [&] {
         auto arp = good_ipoib;
         arp.sender = own_;
         PeerSays(arp, true);
       },
       Drop::kLoop},
      {"an IPoIB host speaks as another port, whose station it says has moved to another queue "
       "pair",
       [&] {
         auto arp = good_ipoib;
         arp.sender = {Qpn(0x666), PeerAddr(1).gid()};
         FromIpoib(IpoibType::kArp, ArpBytes(arp), PeerAddr(2), true);
       },
       Drop::kForgedSender},
      {"the IPoIB sender is a group",
       [&] {
         auto arp = good_ipoib;
         arp.sender = IpoibAddress::OfGroup(ToMgid(BroadcastGroup(kLinkForTest.link)));
         PeerSays(arp, true);
       },
       Drop::kMalformed},
      {"the IPoIB sender has a zero address",
       [&] {
         auto arp = good_ipoib;
         arp.sender = IpoibAddress();
         PeerSays(arp, true);
       },
       Drop::kMalformed},
      {"cut", [&] { FromIpoib(IpoibType::kArp, Bytes(55), PeerAddr(1), true); }, Drop::kMalformed},
  };
  for (const auto& row : kRows) {
    const uint64_t before = (*this)[row.drop];
    row.send();
    EXPECT_EQ((*this)[row.drop], before + 1) << row.description;
    EXPECT_TRUE(sink_.Take().empty()) << row.description;
  }
  EXPECT_EQ(translator_.state().stations.FindByIp(PeerIp(1))->address(), PeerAddr(1));
}

// Against RFC 1812 §3.3.2, as hosts do: the address of a cluster is at a group MAC (Microsoft NLB,
// Linux CLUSTERIP).
TEST_F(ArpTranslationTest, AClusterIsReachedAtItsGroupMac) {
  const MacAddr cluster = *MacAddr::Parse("03:bf:0a:00:00:07");
  const auto cluster_says = [&](const EthernetArp& arp, MacAddr to) {
    FromEthernet(Frame(to, HostMac(1), kEtherTypeArp, ArpBytes(arp)));
  };
  PeerAsks(1, HostIp(7));
  OneFrame(MacAddr::Broadcast(), PeerMac(1));
  cluster_says({ArpOperation::kReply, cluster, HostIp(7), PeerMac(1), PeerIp(1)}, PeerMac(1));
  EXPECT_EQ(OnePacket(PeerAddr(1)),
            (IpoibArp{ArpOperation::kReply, own_, HostIp(7), PeerAddr(1), PeerIp(1)}));
  PeerSends(1, Udp4(PeerIp(1), HostIp(7)));
  const auto frames = sink_.Take();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].destination, cluster);
  // A host of the cluster asks, and all get the answer.
  cluster_says({ArpOperation::kRequest, cluster, HostIp(7), MacAddr(), PeerIp(1)},
               MacAddr::Broadcast());
  EXPECT_EQ(OnePacket(absl::nullopt),
            (IpoibArp{ArpOperation::kRequest, own_, HostIp(7), IpoibAddress(), PeerIp(1)}));
  PeerSays({ArpOperation::kReply, PeerAddr(1), PeerIp(1), own_, HostIp(7)}, false);
  EXPECT_EQ(OneFrame(cluster, PeerMac(1)),
            (EthernetArp{ArpOperation::kReply, PeerMac(1), PeerIp(1), cluster, HostIp(7)}));
  // A frame never comes from a group.
  FromEthernet(Frame(PeerMac(1), cluster, kEtherTypeIpv4, Udp4(HostIp(7), PeerIp(1))));
  EXPECT_EQ((*this)[Drop::kMalformed], 1u);
}

// Requester and target are on one side, where the reply comes.
TEST_F(ArpTranslationTest, LocalTargetsStayLocal) {
  Introduce(1, 1);
  Introduce(2, 2);
  HostAsks(1, HostIp(2));
  PeerAsks(1, PeerIp(2));
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_EQ((*this)[Drop::kLocalTarget], 2u);
  HostSays({ArpOperation::kRequest, HostMac(1), Ipv4Addr(), MacAddr(), HostIp(2)},
           MacAddr::Broadcast());
  EXPECT_EQ(sink_.Take().size(), 1u) << "a probe crosses, for the address may be on both sides";
  Advance(absl::Seconds(10));
  HostAsks(1, HostIp(2));
  EXPECT_EQ(sink_.Take().size(), 1u) << "it was silent for a while";
}

}  // namespace
}  // namespace eoib::translation
