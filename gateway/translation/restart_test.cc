// The tables and announcements of a gateway after its restart, and when it takes over from another
// one.
#include "gateway/translation/nd_packet.h"
#include "gateway/translation/translator.h"
#include "gateway/translation/translator_test_fixture.h"
#include "gtest/gtest.h"

namespace eoib::translation {
namespace {

class RestartTest : public TranslatorTest {
 protected:
  // Another process with the same tables, whose link comes up with another queue pair; returns what
  // it sends in three seconds.
  std::vector<SinkForTest::Output> AfterARestart() {
    SinkForTest sink;
    Translator again(QuietOptions({}), &clock_, &sink);
    again.SetActive(false);
    again.Restore(translator_.Save());
    auto link = kLinkForTest;
    link.own = {Qpn(0x1234), link.own.gid()};
    again.OnLinkState(link);
    again.SetActive(true);
    for (int i = 0; i < 300; ++i) {
      again.Tick();
      clock_.Advance(absl::Milliseconds(10));
    }
    return sink.Take();
  }
  // The flags of the advertisement of `target` among the outputs; absent if there is none.
  static absl::optional<uint8_t> FlagsOf(const std::vector<SinkForTest::Output>& outputs,
                                         const Ipv6Addr& target) {
    for (const auto& out : outputs) {
      NdMessage message;
      if (ParseNeighborDiscovery(out.payload, &message) == NdVerdict::kGood &&
          message.target == target) {
        return AdvertisementFlags(message);
      }
    }
    return absl::nullopt;
  }
};

TEST_F(RestartTest, StandsBy) {
  translator_.SetActive(false);
  Introduce(1, 1);
  HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
  PeerSends(1, Udp4(PeerIp(1), HostIp(1)));
  Advance(absl::Seconds(10));
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_EQ((*this)[Drop::kStandby], 6u);
  // The other gateway's advertisements of its Ethernet hosts on IPoIB, and of stations on Ethernet.
  const IpoibAddress other(Qpn(0x55), GidOf(0x55));
  FromIpoib(IpoibType::kArp,
            ArpBytes(IpoibArp{ArpOperation::kRequest, other, HostIp(1), IpoibAddress(), PeerIp(1)}),
            other, true);
  translator_.SetOtherGateways({other});
  FromIpoib(IpoibType::kArp,
            ArpBytes(IpoibArp{ArpOperation::kRequest, other, HostIp(1), IpoibAddress(), PeerIp(1)}),
            other, true);
  EXPECT_EQ((*this)[Drop::kOtherGateway], 1u);
  EXPECT_EQ(translator_.state().stations.FindByIp(HostIp(1)), nullptr);
  FromEthernet(Frame(
      MacAddr::Broadcast(), PeerMac(2), kEtherTypeArp,
      ArpBytes(EthernetArp{ArpOperation::kRequest, PeerMac(2), PeerIp(2), MacAddr(), HostIp(1)})));
  EXPECT_TRUE(translator_.state().neighbors.HasMac(PeerMac(2))) << "it cannot know the owner yet";
  PeerAsks(2, HostIp(1));
  EXPECT_FALSE(translator_.state().neighbors.HasMac(PeerMac(2)));

  translator_.SetActive(true);
  Advance(absl::Seconds(1));
  EXPECT_EQ((*this)[Event::kAnnounced], 5u)
      << "two addresses of each of the first, one of the second";
  sink_.Take();
  HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
  EXPECT_EQ(sink_.Take().size(), 1u);
}

TEST_F(RestartTest, AnnouncesEverythingAfterARestart) {
  for (int n = 1; n <= 50; ++n) {
    Introduce(n, n);
    Advance(absl::Seconds(1));
  }
  const SavedTables saved = translator_.Save();
  EXPECT_EQ(saved.stations.size(), 50u);
  EXPECT_EQ(saved.neighbors.size(), 100u);
  SinkForTest sink;
  Options options;
  options.query_groups = false;
  Translator again(options, &clock_, &sink);
  again.Restore(saved);
  EXPECT_EQ(again.Save(), saved);
  EXPECT_TRUE(sink.outputs.empty()) << "the link is down";
  auto link = kLinkForTest;
  link.own = {Qpn(0x1234), link.own.gid()};
  again.OnLinkState(link);
  std::vector<size_t> a_second;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 100; ++j) {
      again.Tick();
      clock_.Advance(absl::Milliseconds(10));
    }
    a_second.push_back(again.counters()[Event::kAnnounced]);
  }
  EXPECT_EQ(a_second.back(), 200u);
  EXPECT_LE(a_second[0], options.announcements_per_second + options.announcement_burst);
  // The youngest entries first: host 50 of both sides.
  ASSERT_EQ(sink.outputs.size(), 200u);
  for (size_t i = 0; i < 4; ++i) {
    const auto& out = sink.outputs[i];
    if (out.kind == OutputKind::kFrame) {
      EXPECT_EQ(out.source, PeerMac(50));
      EXPECT_TRUE(out.destination == MacAddr::Broadcast() ||
                  out.destination == GroupMac(kAllNodes));
    } else if (out.type == kEtherTypeArp) {
      EXPECT_EQ(ParseIpoibArp(out.payload), (IpoibArp{ArpOperation::kRequest, link.own, HostIp(50),
                                                      IpoibAddress(), HostIp(50)}));
    } else {
      NdMessage message;
      ASSERT_EQ(ParseNeighborDiscovery(out.payload, &message), NdVerdict::kGood);
      EXPECT_EQ(message.target, HostIp6(50));
      EXPECT_EQ(AdvertisementFlags(message), kNaOverride);
      EXPECT_EQ(IpoibLinkAddress(message.options.Find(NdOptionType::kTargetLinkAddress)), link.own);
    }
  }
  // A packet without a GRH from a station that has been silent since: TCP goes on.
  Bytes packet = Udp4(PeerIp(7), HostIp(7));
  sink.outputs.clear();
  again.FromIpoib({IpoibType::kIpv4, absl::MakeSpan(packet), absl::nullopt, false});
  ASSERT_EQ(sink.outputs.size(), 1u);
  EXPECT_EQ(sink.outputs[0].source, PeerMac(7));
}

TEST_F(RestartTest, AnotherAddressOfItsOwnIsAnnounced) {
  Introduce(1, 1);
  translator_.OnLinkState(absl::nullopt);
  HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
  EXPECT_EQ((*this)[Drop::kLinkDown], 1u);
  translator_.OnLinkState(kLinkForTest);
  Advance(absl::Seconds(1));
  EXPECT_EQ((*this)[Event::kAnnounced], 0u) << "it is the same";
  auto link = kLinkForTest;
  link.own = {Qpn(0x1234), link.own.gid()};
  translator_.OnLinkState(link);
  Advance(absl::Seconds(1));
  EXPECT_EQ((*this)[Event::kAnnounced], 4u);
}

// RFC 4861 §7.2.5: hosts stop using a default router that is announced without the R flag.
TEST_F(RestartTest, RoutersAreAnnouncedAsRouters) {
  Introduce(1, 1);
  Introduce(2, 2);
  Bytes packet;
  BuildAdvertisement(HostIp6(1), /*router=*/true, HostMac(1), &packet);
  FromEthernet(Frame(GroupMac(kAllNodes), HostMac(1), kEtherTypeIpv6, packet));
  BuildAdvertisement(PeerIp6(1), /*router=*/true, PeerAddr(1), &packet);
  FromIpoib(IpoibType::kIpv6, packet, PeerAddr(1), true);
  const auto outputs = AfterARestart();
  EXPECT_EQ(FlagsOf(outputs, HostIp6(1)), kNaOverride | kNaRouter);
  EXPECT_EQ(FlagsOf(outputs, PeerIp6(1)), kNaOverride | kNaRouter);
  EXPECT_EQ(FlagsOf(outputs, HostIp6(2)), kNaOverride);
  // The host is no longer a router.
  BuildAdvertisement(HostIp6(1), /*router=*/false, HostMac(1), &packet);
  FromEthernet(Frame(GroupMac(kAllNodes), HostMac(1), kEtherTypeIpv6, packet));
  EXPECT_EQ(FlagsOf(AfterARestart(), HostIp6(1)), kNaOverride);
}

// An address that moved to the other side is still in the table of its former side.
TEST_F(RestartTest, AnnouncesTheLaterOfTwoOwners) {
  Introduce(1, 1);
  Advance(absl::Minutes(1));
  FromEthernet(Frame(
      MacAddr::Broadcast(), HostMac(1), kEtherTypeArp,
      ArpBytes(EthernetArp{ArpOperation::kRequest, HostMac(1), PeerIp(1), MacAddr(), PeerIp(1)})));
  size_t to_ipoib = 0;
  for (const auto& out : AfterARestart()) {
    const auto ethernet = ParseEthernetArp(out.payload);
    const auto ipoib = ParseIpoibArp(out.payload);
    EXPECT_FALSE(out.kind == OutputKind::kFrame && ethernet.has_value() &&
                 ethernet->sender_ip == PeerIp(1));
    to_ipoib +=
        out.kind != OutputKind::kFrame && ipoib.has_value() && ipoib->sender_ip == PeerIp(1);
  }
  EXPECT_EQ(to_ipoib, 1u);
}

// IPoIB hosts' packets for remote addresses go to the router that was learned before the restart.
TEST_F(RestartTest, RoutersAndPrefixesAreKnownAgain) {
  Introduce(1, 1);
  OnLink& link = const_cast<TranslationState&>(translator_.state()).on_link;
  SavedTables learned;
  learned.prefixes = {{HostIp(0), 24, absl::Hours(2)}, {HostIp6(0), 64, absl::Hours(20)}};
  learned.routers = {{HostIp(1), 0, absl::Hours(1)}, {HostIp6(1), 1, absl::Hours(1)}};
  link.Restore(learned, clock_.Now());
  const SavedTables saved = translator_.Save();
  EXPECT_EQ(saved.prefixes, learned.prefixes);
  EXPECT_EQ(saved.routers, learned.routers);

  SinkForTest sink;
  Translator again(QuietOptions({}), &clock_, &sink);
  again.Restore(saved);
  again.OnLinkState(kLinkForTest);
  sink.outputs.clear();
  for (Bytes packet : {Udp4(PeerIp(1), Ip4("192.0.2.1")), Udp6(PeerIp6(1), Ip6("2001:db8::1"))}) {
    again.FromIpoib({packet[0] >> 4 == 4 ? IpoibType::kIpv4 : IpoibType::kIpv6,
                     absl::MakeSpan(packet), PeerAddr(1), false});
    const auto outputs = sink.Take();
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0].destination, HostMac(1));
  }
}

// A file of a version that believed claims of addresses beyond the configured prefixes.
TEST_F(RestartTest, ForgetsAddressesBeyondTheConfiguredPrefixes) {
  Introduce(1, 1);
  HostClaims(1, Ip4("8.8.8.8"));
  PeerClaims(1, Ip4("8.8.4.4"));
  const SavedTables saved = translator_.Save();
  EXPECT_EQ(saved.neighbors.size(), 3u);
  Options options;
  options.prefixes = {{HostIp(0), 24}};
  SinkForTest sink;
  Translator again(QuietOptions(options), &clock_, &sink);
  again.Restore(saved);
  EXPECT_EQ(again.state().neighbors.Find(Ip4("8.8.8.8")), absl::nullopt);
  EXPECT_EQ(again.state().stations.FindByIp(Ip4("8.8.4.4")), nullptr);
  EXPECT_EQ(again.state().neighbors.size(), 2u);
  EXPECT_EQ(again.state().stations.ips(), 2u);
  translator_.Change(QuietOptions(options));
  EXPECT_EQ(translator_.state().neighbors.size(), 2u) << "the same when they are configured later";
  EXPECT_EQ(translator_.state().stations.ips(), 2u);
}

// A host that says to be many routers keeps no other from being announced as one.
TEST_F(RestartTest, InventedRoutersDisplaceNoOther) {
  Bytes packet;
  const auto advertise = [&](int n) {
    BuildAdvertisement(HostIp6(n), /*router=*/true, HostMac(1), &packet);
    FromEthernet(Frame(GroupMac(kAllNodes), HostMac(1), kEtherTypeIpv6, packet));
  };
  for (int n = 0x1000; n < 0x1000 + 3000; ++n) advertise(n);
  advertise(1);
  EXPECT_TRUE(translator_.state().IsRouter(HostIp6(1)));
  Advance(absl::Hours(1));
  advertise(1);
  EXPECT_TRUE(translator_.state().IsRouter(HostIp6(1)));
  EXPECT_EQ(translator_.state().neighbors.size(), 1u);
}

// Hosts that talk to each other revalidate by unicast, which a gateway that stands by does not
// hear.
TEST_F(RestartTest, EntriesDoNotAgeWhileAnotherGatewayIsActive) {
  Introduce(1, 1);
  translator_.SetActive(false);
  Advance(absl::Hours(30));
  translator_.SetActive(true);
  Advance(absl::Seconds(1));
  EXPECT_EQ((*this)[Event::kAnnounced], 4u);
  Advance(absl::Minutes(9));
  EXPECT_TRUE(translator_.state().neighbors.Find(HostIp(1)).has_value());
  Advance(absl::Minutes(2));
  EXPECT_FALSE(translator_.state().neighbors.Find(HostIp(1)).has_value())
      << "it had time to be heard";
}

}  // namespace
}  // namespace eoib::translation
