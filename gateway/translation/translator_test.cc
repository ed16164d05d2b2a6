#include "gateway/translation/translator.h"

#include "gateway/translation/translator_test_fixture.h"
#include "vswitch/base/allocation_counter_for_test.h"
#include "vswitch/wire/ip/group_report.h"

namespace eoib::translation {
namespace {

class GatewayTest : public TranslatorTest {
 protected:
  using TranslatorTest::TranslatorTest;
  std::vector<SinkForTest::Output> SolicitationLimiter() {
    auto outputs = sink_.Take();
    std::erase_if(outputs, [](const auto& out) { return out.type != kEtherTypeArp; });
    return outputs;
  }
};

TEST_F(GatewayTest, UnicastAllocatesNothing) {
  class Nothing final : public Sink {
   public:
    void ToEthernet(MacAddr, MacAddr, uint16_t, absl::Span<const uint8_t> payload) override {
      bytes = payload.data(), ++count;
    }
    void ToIpoib(IpoibType, absl::Span<const uint8_t> payload, const IpoibAddress&) override {
      bytes = payload.data(), ++count;
    }
    void ToIpoibGroup(IpoibType, absl::Span<const uint8_t>, const IpoibGroup&, bool) override {
      ++count;
    }
    void Listen(const IpoibGroup&) override {}
    void Unlisten(const IpoibGroup&) override {}
    const uint8_t* bytes = nullptr;
    int count = 0;
  } sink;
  Translator translator(Options(), &clock_, &sink);
  translator.OnLinkState(kLinkForTest);
  Bytes host_arp = Frame(
      MacAddr::Broadcast(), HostMac(1), kEtherTypeArp,
      ArpBytes(EthernetArp{ArpOperation::kRequest, HostMac(1), HostIp(1), MacAddr(), HostIp(1)}));
  Bytes peer_arp =
      ArpBytes(IpoibArp{ArpOperation::kRequest, PeerAddr(1), PeerIp(1), IpoibAddress(), PeerIp(1)});
  translator.FromEthernet(absl::MakeSpan(host_arp), {});
  translator.FromIpoib({IpoibType::kArp, absl::MakeSpan(peer_arp), PeerAddr(1), true});
  Bytes frame = Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, Udp4(HostIp(1), PeerIp(1), 100));
  Bytes packet = Udp4(PeerIp(1), HostIp(1), 100);
  sink.count = 0;
  counting_allocations = true;
  for (int i = 0; i < 100; ++i) {
    translator.FromEthernet(absl::MakeSpan(frame), {});
    counting_allocations &= sink.bytes == frame.data() + 14;  // the frame's own bytes, not a copy
    translator.FromIpoib({IpoibType::kIpv4, absl::MakeSpan(packet), PeerAddr(1), false});
  }
  EXPECT_TRUE(counting_allocations);
  counting_allocations = false;
  EXPECT_EQ(allocations, 0u);
  EXPECT_EQ(sink.count, 200);
}

// RFC 4391 §9.4. The station sends nothing by itself.
TEST_F(GatewayTest, StationBackWithAnotherQpnIsReachedWithinThreeSeconds) {
  Introduce(1, 1);
  const IpoibAddress again(Qpn(0x777), PeerAddr(1).gid());
  for (const absl::Duration dead : {absl::ZeroDuration(), absl::Seconds(4), absl::Minutes(2)}) {
    const IpoibAddress before = translator_.state().stations.FindByIp(PeerIp(1))->address();
    const IpoibAddress after = before == again ? PeerAddr(1) : again;
    const auto flow = [&](absl::Duration by) {
      for (absl::Duration passed; passed < by; passed += absl::Milliseconds(100)) {
        HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
        Advance(absl::Milliseconds(100));
      }
    };
    flow(dead);
    sink_.Take();
    const absl::Time back = clock_.Now();
    bool reached = false;
    while (!reached && clock_.Now() - back < absl::Seconds(10)) {
      flow(absl::Milliseconds(100));
      for (const auto& ask : SolicitationLimiter()) {
        const auto arp = ParseIpoibArp(ask.payload);
        if (ask.kind != OutputKind::kGroup) continue;  // to the old queue pair
        EXPECT_EQ(arp->sender_ip, HostIp(1));
        EXPECT_EQ(arp->sender, kLinkForTest.own);
        FromIpoib(
            IpoibType::kArp,
            ArpBytes(IpoibArp{ArpOperation::kReply, after, PeerIp(1), kLinkForTest.own, HostIp(1)}),
            after, false);
        reached = true;
      }
    }
    EXPECT_LE(clock_.Now() - back, absl::Seconds(3)) << dead;
    sink_.Take();
    HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
    ASSERT_EQ(sink_.outputs.size(), 1u);
    EXPECT_EQ(sink_.outputs[0].to, after) << "with the same MAC address";
  }
}

TEST_F(GatewayTest, StationsThatAnswerAreNotSolicited) {
  Introduce(1, 1);
  for (int i = 0; i < 100; ++i) {
    HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
    PeerSends(1, Udp4(PeerIp(1), HostIp(1)));
    Advance(absl::Milliseconds(300));
  }
  EXPECT_TRUE(SolicitationLimiter().empty());
  EXPECT_EQ((*this)[Event::kAsks], 0u);
}

TEST_F(GatewayTest, OneWayTrafficSolicitsOneHostOnly) {
  Introduce(1, 1);
  size_t asks = 0;
  for (int i = 0; i < 600; ++i) {
    HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
    Advance(absl::Milliseconds(100));
    for (const auto& ask : SolicitationLimiter()) {
      ++asks;
      EXPECT_EQ(ask.kind, OutputKind::kPacket) << "it answers where it was";
      FromIpoib(IpoibType::kArp,
                ArpBytes(IpoibArp{ArpOperation::kReply, PeerAddr(1), PeerIp(1), kLinkForTest.own,
                                  HostIp(1)}),
                PeerAddr(1), false);
      sink_.Take();
    }
  }
  EXPECT_GE(asks, 40u);
  EXPECT_LE(asks, 60u) << "one a second";
}

// A solicitation on behalf of a remote host has no sender address; it must then be a correct probe.
TEST_F(GatewayTest, SolicitsForRoutedPacketsFromTheUnspecifiedAddress) {
  Introduce(1, 1);
  Advance(absl::Seconds(2));
  FromEthernet(Frame(PeerMac(1), HostMac(9), kEtherTypeIpv6, Udp6(Ip6("2001:db8::1"), PeerIp6(1))));
  sink_.Take();
  Advance(absl::Seconds(1));
  const auto asks = sink_.Take();
  ASSERT_EQ(asks.size(), 2u);
  EXPECT_EQ(asks[0].to, PeerAddr(1));
  EXPECT_EQ(asks[1].group, *GroupOf(kLinkForTest.link, SolicitedNodeGroup(PeerIp6(1))));
  for (const auto& ask : asks) {
    NdMessage message;
    ASSERT_EQ(ParseNeighborDiscovery(ask.payload, &message), NdVerdict::kGood);
    EXPECT_TRUE(message.source.IsUnspecified());
    EXPECT_EQ(message.destination, SolicitedNodeGroup(PeerIp6(1)));
    EXPECT_EQ(message.target, PeerIp6(1));
    EXPECT_TRUE(message.options.bytes().empty());
  }
}

TEST_F(GatewayTest, AnAddressMayHaveGoneToEthernet) {
  Introduce(1, 1);
  Introduce(2, 2);
  PeerSends(1, Udp4(PeerIp(1), PeerIp(2)));
  EXPECT_EQ((*this)[Drop::kSameSide], 1u);
  Advance(absl::Minutes(1));
  sink_.Take();
  PeerSends(1, Udp4(PeerIp(1), PeerIp(2)));
  const auto asks = SolicitationLimiter();
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(ParseEthernetArp(asks[0].payload)->target_ip, PeerIp(2));
}

// A caller that waits for NextDeadline() sleeps most of the time, and in the end for ever.
TEST_F(GatewayTest, WakesUpRarely) {
  Introduce(1, 1);
  PeerSends(1, Udp4(PeerIp(1), HostIp(7)));
  HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
  int ticks = 0;
  while (translator_.NextDeadline() < absl::InfiniteFuture() && ticks < 1000) {
    clock_.Advance(std::max(absl::ZeroDuration(), translator_.NextDeadline() - clock_.Now()));
    translator_.Tick();
    ++ticks;
  }
  EXPECT_LT(ticks, 300);
  EXPECT_EQ(translator_.state().stations.size(), 0u) << "and has forgotten everybody in the end";
  EXPECT_EQ(translator_.state().neighbors.size(), 0u);
  EXPECT_EQ(translator_.state().groups.size(), 0u);
}

TEST_F(GatewayTest, SolicitsAnUnknownNeighborWhilePacketsWait) {
  PeerAsks(1, PeerIp(1));
  sink_.Take();
  for (size_t size = 1; size <= 6; ++size) PeerSends(1, Udp4(PeerIp(1), HostIp(1), size));
  auto asks = SolicitationLimiter();
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(ParseEthernetArp(asks[0].payload),
            (EthernetArp{ArpOperation::kRequest, PeerMac(1), PeerIp(1), MacAddr(), HostIp(1)}));
  Advance(absl::Milliseconds(1500));
  EXPECT_EQ(SolicitationLimiter().size(), 1u) << "again";
  FromEthernet(Frame(
      PeerMac(1), HostMac(1), kEtherTypeArp,
      ArpBytes(EthernetArp{ArpOperation::kReply, HostMac(1), HostIp(1), PeerMac(1), PeerIp(1)})));
  std::vector<size_t> sizes;
  for (const auto& out : sink_.Take()) {
    if (out.type == kEtherTypeIpv4) sizes.push_back(out.payload.size() - kUdp4HeadersSize);
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{3, 4, 5, 6})) << "the latest";
  EXPECT_EQ((*this)[Drop::kUnanswered], 2u);
  PeerSends(1, Udp6(PeerIp6(1), HostIp6(1)));
  const auto solicitation = sink_.Take();
  ASSERT_EQ(solicitation.size(), 1u);
  EXPECT_EQ(solicitation[0].destination, GroupMac(SolicitedNodeGroup(HostIp6(1))));
}

TEST_F(GatewayTest, SilentNeighborsAreGivenUp) {
  PeerAsks(1, PeerIp(1));
  sink_.Take();
  size_t asks = 0;
  for (int i = 0; i < 1200; ++i) {
    PeerSends(1, Udp4(PeerIp(1), HostIp(1)));
    Advance(absl::Milliseconds(100));
    asks += SolicitationLimiter().size();
  }
  EXPECT_GE(asks, 6u);
  EXPECT_LE(asks, 24u) << "in two minutes";
  EXPECT_GT((*this)[Drop::kUnanswered], 0u);
  EXPECT_GT((*this)[Drop::kSilentTarget], 0u);
  EXPECT_EQ(translator_.state().resolution.size(), 0u);
  HostAsks(1, HostIp(1));
  sink_.Take();
  PeerSends(1, Udp4(PeerIp(1), HostIp(1)));
  EXPECT_EQ(sink_.Take().size(), 1u) << "it came back";
}

class RouterTest : public GatewayTest {
 protected:
  static Options With(std::vector<Prefix> prefixes) {
    Options options;
    options.prefixes = std::move(prefixes);
    options.routers = {HostIp(9)};
    return options;
  }
  explicit RouterTest(std::vector<Prefix> prefixes = {{HostIp(0), 24}})
      : GatewayTest(With(std::move(prefixes))) {}
  void TheRouterSpeaks() {
    HostAsks(9, HostIp(9));
    sink_.Take();
  }
};

TEST_F(RouterTest, HostsBeyondTheLinkAreBehindIt) {
  Introduce(1, 1);
  TheRouterSpeaks();
  PeerSends(1, Udp4(PeerIp(1), Ip4("192.0.2.1")));
  auto outputs = sink_.Take();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].destination, HostMac(9));
  // In the other direction: the source is not on this link, and no station is solicited on its
  // behalf.
  FromEthernet(Frame(PeerMac(1), HostMac(9), kEtherTypeIpv4, Udp4(Ip4("192.0.2.1"), PeerIp(1))));
  outputs = sink_.Take();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].to, PeerAddr(1));
  PeerSends(1, Udp6(PeerIp6(1), Ip6("2001:db8::1")));
  EXPECT_EQ(SolicitationLimiter().size(), 0u) << "IPv6 has no prefix here: tried as a neighbour";
}

// A host that claims an address beyond the link gets none of its traffic, nor keeps it from the
// router.
TEST_F(RouterTest, ClaimsOfAddressesBeyondTheLinkDoNothing) {
  Introduce(1, 1);
  Introduce(2, 2);
  TheRouterSpeaks();
  const Ipv4Addr remote = Ip4("192.0.2.1");
  HostClaims(2, remote);
  FromEthernet(Frame(
      PeerMac(1), HostMac(2), kEtherTypeArp,
      ArpBytes(EthernetArp{ArpOperation::kReply, HostMac(2), remote, PeerMac(1), PeerIp(1)})));
  PeerClaims(2, remote);
  FromIpoib(
      IpoibType::kArp,
      ArpBytes(IpoibArp{ArpOperation::kReply, PeerAddr(2), remote, kLinkForTest.own, HostIp(1)}),
      PeerAddr(2), false);
  EXPECT_EQ((*this)[Event::kIgnoredClaims], 4u);
  EXPECT_EQ(translator_.state().neighbors.Find(remote), absl::nullopt);
  sink_.Take();
  PeerSends(1, Udp4(PeerIp(1), remote));
  const auto outputs = sink_.Take();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].destination, HostMac(9));
  EXPECT_NE(translator_.state().stations.FindByAddress(PeerAddr(2)), nullptr)
      << "the station itself is known";
}

// Link-local addresses are on each link, and the other family has no prefix here.
TEST_F(RouterTest, OtherClaimsAreBelieved) {
  HostClaims(1, Ip4("169.254.3.4"));
  EXPECT_EQ(translator_.state().neighbors.Find(Ip4("169.254.3.4")), HostMac(1));
  for (const char* const ip : {"fe80::7", "2001:db8::7"}) {
    Bytes packet;
    BuildAdvertisement(Ip6(ip), false, HostMac(1), &packet);
    FromEthernet(Frame(GroupMac(kAllNodes), HostMac(1), kEtherTypeIpv6, packet));
    EXPECT_EQ(translator_.state().neighbors.Find(Ip6(ip)), HostMac(1)) << ip;
  }
  HostClaims(2, Ipv4Addr());
  EXPECT_EQ((*this)[Event::kIgnoredClaims], 0u) << "a probe claims nothing";
}

class Router6Test : public RouterTest {
 protected:
  Router6Test() : RouterTest({{HostIp6(0), 64}}) {}
};

TEST_F(Router6Test, Ipv6ClaimsBeyondTheLinkDoNothing) {
  const Ipv6Addr remote = Ip6("2001:db8::7");
  Bytes packet;
  BuildAdvertisement(remote, false, HostMac(1), &packet);
  FromEthernet(Frame(GroupMac(kAllNodes), HostMac(1), kEtherTypeIpv6, packet));
  BuildSolicitation(remote, HostMac(1), PeerIp6(1), false, &packet);
  FromEthernet(Frame(GroupMac(SolicitedNodeGroup(PeerIp6(1))), HostMac(1), kEtherTypeIpv6, packet));
  BuildAdvertisement(remote, false, PeerAddr(1), &packet);
  FromIpoib(IpoibType::kIpv6, packet, PeerAddr(1), true);
  EXPECT_EQ((*this)[Event::kIgnoredClaims], 3u);
  EXPECT_EQ(translator_.state().neighbors.Find(remote), absl::nullopt);
  EXPECT_EQ(translator_.state().stations.FindByIp(remote), nullptr);
}

TEST_F(RouterTest, SolicitsTheRouterItself) {
  Introduce(1, 1);
  PeerSends(1, Udp4(PeerIp(1), Ip4("192.0.2.1")));
  const auto asks = SolicitationLimiter();
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(ParseEthernetArp(asks[0].payload)->target_ip, HostIp(9));
  HostAsks(9, HostIp(9));
  bool sent = false;
  for (const auto& out : sink_.Take())
    sent |= out.type == kEtherTypeIpv4 && out.destination == HostMac(9);
  EXPECT_TRUE(sent);
}

class RouterWithoutPrefixTest : public RouterTest {
 protected:
  RouterWithoutPrefixTest() : RouterTest({}) {}
};

TEST_F(RouterWithoutPrefixTest, IsTriedAfterTheHostItself) {
  Introduce(1, 1);
  TheRouterSpeaks();
  const Bytes packet = Udp4(PeerIp(1), Ip4("192.0.2.1"));
  PeerSends(1, packet);
  EXPECT_EQ(SolicitationLimiter().size(), 1u);
  Advance(absl::Seconds(4));
  auto outputs = sink_.Take();
  ASSERT_FALSE(outputs.empty());
  EXPECT_EQ(outputs.back().destination, HostMac(9));
  EXPECT_EQ(outputs.back().payload, packet);
  for (int i = 0; i < 300; ++i) {
    PeerSends(1, packet);
    outputs = sink_.Take();
    ASSERT_EQ(outputs.size(), 1u) << "at once from now on, as long as somebody talks with it";
    ASSERT_EQ(outputs[0].destination, HostMac(9));
    Advance(absl::Seconds(1));
    sink_.Take();
  }
}

// Each side scans ten thousand addresses: the other side sees few solicitations, and other hosts
// are not disturbed.
TEST_F(GatewayTest, ScansAreNoStorms) {
  for (const bool from_ethernet : {true, false}) {
    Introduce(1, 1);
    Introduce(2, 2);
    const absl::Time start = clock_.Now();
    size_t asked = 0, reached = 0;
    for (int i = 0; i < 10000; ++i) {
      const Ipv4Addr target(0x0a01'0000 + static_cast<uint32_t>(i));
      from_ethernet ? HostAsks(1, target) : PeerAsks(1, target);
      if (i % 100 == 0) {
        // Host 2 talks with peer 2 meanwhile, and looks for a new one.
        HostSends(2, 2, Udp4(HostIp(2), PeerIp(2)));
        PeerSends(2, Udp4(PeerIp(2), HostIp(2)));
        from_ethernet ? HostAsks(2, PeerIp(3)) : PeerAsks(2, HostIp(3));
      }
      clock_.Advance(absl::Milliseconds(1));
      translator_.Tick();
      for (const auto& out : sink_.Take()) {
        asked += out.type == kEtherTypeArp;
        reached += out.type == kEtherTypeIpv4;
      }
    }
    const double seconds = absl::ToDoubleSeconds(clock_.Now() - start);
    const Options options;
    EXPECT_LE(asked, options.ask_burst + options.asks_per_second * seconds) << from_ethernet;
    EXPECT_GE(asked, 300u) << "a scanner gets its share";
    EXPECT_EQ(reached, 200u) << "known ones are not touched";
    EXPECT_EQ(translator_.state().stations.size(), 2u);
    EXPECT_EQ(translator_.state().neighbors.size(), 4u);
    EXPECT_LE(translator_.state().ipoib_limiter.silent(), options.max_silent);
    clock_.Advance(absl::Minutes(2));
    translator_.Tick();
  }
  EXPECT_GT((*this)[Drop::kThrottled], 10000u);
}

TEST_F(GatewayTest, SolicitationsForASilentTargetBackOff) {
  std::vector<double> crossed;
  const absl::Time start = clock_.Now();
  for (int i = 0; i < 1200; ++i) {
    HostAsks(1, PeerIp(1));
    if (!sink_.Take().empty()) crossed.push_back(absl::ToDoubleSeconds(clock_.Now() - start));
    Advance(absl::Milliseconds(100));
  }
  ASSERT_GE(crossed.size(), 6u);
  for (size_t i = 1; i < crossed.size(); ++i) {
    EXPECT_NEAR(crossed[i] - crossed[i - 1], std::min(30.0, std::pow(2, i - 1)), 0.2) << i;
  }
  PeerAsks(1, PeerIp(1));
  sink_.Take();
  HostAsks(2, PeerIp(1));
  EXPECT_EQ(sink_.Take().size(), 1u) << "it was heard";
}

TEST_F(GatewayTest, ListensWhereOthersReport) {
  EXPECT_EQ(sink_.listening.size(), 15u);
  EXPECT_TRUE(sink_.listening.contains(ToMgid(*GroupOf(kLinkForTest.link, Ip4("224.0.0.22")))));
  EXPECT_TRUE(sink_.listening.contains(ToMgid(*GroupOf(kLinkForTest.link, Ip6("ff02::2")))));
  Introduce(1, 1);
  EXPECT_EQ(sink_.listening.size(), 16u);
  auto link = kLinkForTest;
  link.link.scope = MulticastScope(5);
  translator_.OnLinkState(link);
  EXPECT_EQ(sink_.listening.size(), 16u);
  for (const auto& [mgid, group] : sink_.listening) EXPECT_EQ(group.link, link.link);
}

TEST_F(GatewayTest, Dump) {
  Introduce(1, 1);
  HostAsks(2, PeerIp(9));
  Advance(absl::Minutes(1));
  const auto rows = translator_.Dump();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].ip, IpAddr(HostIp(1)));
  EXPECT_EQ(rows[0].mac, HostMac(1));
  EXPECT_EQ(rows[0].ipoib, kLinkForTest.own);
  EXPECT_EQ(rows[0].age, absl::Minutes(1));
  EXPECT_EQ(rows[0].state, NeighborRow::State::kStale);
  EXPECT_EQ(rows[2].ip, IpAddr(PeerIp(1)));
  EXPECT_EQ(rows[2].side, NeighborRow::Side::kIpoib);
  EXPECT_EQ(rows[2].mac, PeerMac(1));
  EXPECT_EQ(rows[2].ipoib, PeerAddr(1));
}

// The gateway's own solicitations go unanswered meanwhile; their back-off must not delay the
// station's return.
TEST_F(GatewayTest, AStationThatWasAwayForLongIsReachedByABroadcast) {
  HostAsks(1, HostIp(1));
  PeerAsks(1, PeerIp(1));
  for (int i = 0; i < 35; ++i) {
    i < 20 ? HostSends(1, 1, Udp4(HostIp(1), PeerIp(1))) : HostAsks(1, PeerIp(1));
    Advance(absl::Seconds(1));
  }
  sink_.outputs.clear();
  for (int i = 0; i < 3; ++i) {
    HostAsks(1, PeerIp(1));
    Advance(absl::Seconds(1));
  }
  ASSERT_GE(sink_.Count(OutputKind::kGroup), 1u);
  const IpoibAddress back(Qpn(0x4711), PeerAddr(1).gid());
  FromIpoib(IpoibType::kArp,
            ArpBytes(IpoibArp{ArpOperation::kReply, back, PeerIp(1), kLinkForTest.own, HostIp(1)}),
            back, false);
  sink_.outputs.clear();
  HostSends(1, 1, Udp4(HostIp(1), PeerIp(1)));
  ASSERT_EQ(sink_.outputs.size(), 1u);
  EXPECT_EQ(sink_.outputs[0].to, back);
}

TEST_F(GatewayTest, QueriesGroupsWithoutAnotherQuerier) {
  SinkForTest sink;
  Translator translator(Options(), &clock_, &sink);
  translator.OnLinkState(kLinkForTest);
  const auto run = [&](absl::Duration by) {
    for (const absl::Time end = clock_.Now() + by; clock_.Now() < end;
         clock_.Advance(absl::Seconds(1)))
      translator.Tick();
    return sink.Take();
  };
  const auto first = run(absl::Seconds(1));
  ASSERT_EQ(first.size(), 2u);
  IgmpMessage igmp;
  MldMessage mld;
  EXPECT_EQ(ParseGroupMessage(*ParseIpv4Packet(first[0].payload), &igmp), GroupVerdict::kQuery);
  EXPECT_EQ(ParseGroupMessage(*ParseIpv6Packet(first[1].payload), &mld), GroupVerdict::kQuery);
  EXPECT_EQ(first[0].destination.ToString(), "01:00:5e:00:00:01");
  EXPECT_EQ(run(absl::Seconds(125 * 4)).size(), 2 * 4u);
  // Another IGMP querier.
  IgmpQueryBuffer query;
  BuildQuery(HostIp(1), Ipv4Addr(), {}, &query);
  for (int i = 0; i < 4; ++i) {
    Bytes frame = Frame(GroupMac(Ip4("224.0.0.1")), HostMac(1), kEtherTypeIpv4,
                        Bytes(query.begin(), query.end()));
    translator.FromEthernet(absl::MakeSpan(frame), {});
    sink.Take();
    for (const auto& out : run(absl::Seconds(125))) EXPECT_EQ(out.type, kEtherTypeIpv6);
  }
  // It is gone (RFC 3376 §8.5).
  for (const auto& out : run(absl::Seconds(129))) EXPECT_EQ(out.type, kEtherTypeIpv6);
  const auto late = run(absl::Seconds(2));
  EXPECT_TRUE(std::any_of(late.begin(), late.end(),
                          [](const auto& out) { return out.type == kEtherTypeIpv4; }));
}

// A query that only some hosts hear does not end the gateway's own.
TEST_F(GatewayTest, QueriesGroupsAfterAQueryToOneHost) {
  SinkForTest sink;
  Translator translator(Options(), &clock_, &sink);
  translator.OnLinkState(kLinkForTest);
  IgmpQueryBuffer general, specific;
  BuildQuery(HostIp(1), Ipv4Addr(), {}, &general);
  BuildQuery(HostIp(1), Ip4("239.1.2.3"), {}, &specific);
  size_t queries = 0;
  for (int second = 0; second < 500; ++second, clock_.Advance(absl::Seconds(1))) {
    translator.Tick();
    for (const auto& out : sink.Take()) queries += out.type == kEtherTypeIpv4;
    Bytes one =
        Frame(PeerMac(1), HostMac(1), kEtherTypeIpv4, Bytes(general.begin(), general.end()));
    Bytes group = Frame(GroupMac(Ip4("239.1.2.3")), HostMac(1), kEtherTypeIpv4,
                        Bytes(specific.begin(), specific.end()));
    translator.FromEthernet(absl::MakeSpan(one), {});
    translator.FromEthernet(absl::MakeSpan(group), {});
    sink.Take();
  }
  EXPECT_EQ(queries, 5u);
}

// The querier that it heard was the gateway that was active until now.
TEST_F(GatewayTest, QueriesGroupsAtOnceWhenItBecomesActive) {
  SinkForTest sink;
  Translator translator(Options(), &clock_, &sink);
  translator.SetActive(false);
  translator.OnLinkState(kLinkForTest);
  IgmpQueryBuffer query;
  BuildQuery(HostIp(1), Ipv4Addr(), {}, &query);
  Bytes frame = Frame(GroupMac(Ip4("224.0.0.1")), HostMac(1), kEtherTypeIpv4,
                      Bytes(query.begin(), query.end()));
  translator.FromEthernet(absl::MakeSpan(frame), {});
  translator.SetActive(true);
  for (int second = 0; second < 40; ++second, clock_.Advance(absl::Seconds(1))) translator.Tick();
  const auto is_igmp = [](const auto& out) { return out.type == kEtherTypeIpv4; };
  EXPECT_EQ(std::count_if(sink.outputs.begin(), sink.outputs.end(), is_igmp), 2)
      << "at once and soon again (§8.6, §8.7)";
}

}  // namespace
}  // namespace eoib::translation
