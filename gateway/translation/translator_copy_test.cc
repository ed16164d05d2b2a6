// A translator with a copy of the state of another one treats the next packet like the other one,
// whatever that has seen: here random packets of both sides, full tables, and links that go down
// and up. Imitation changes nothing in the other one.
#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "gateway/translation/translator_test_fixture.h"
#include "gtest/gtest.h"
#include "vswitch/wire/ip/group_report.h"
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib::translation {
namespace {

constexpr int kHosts = 6;

Options SmallTables() {
  Options options;
  options.max_stations = options.max_neighbors = 4;
  options.max_station_ips = 6;
  options.max_pending_requests = options.max_silent = options.max_held_targets = 3;
  options.max_groups = 8;
  options.errors_per_second = 0.0005;
  options.asks_per_second = options.asks_per_second_each = 1;
  options.listens_per_second = 0.01;
  options.error_burst = 1;
  options.listen_burst = options.ask_burst = options.ask_burst_each = 3;
  return options;
}

struct Input {
  bool from_ethernet = false;
  IpoibType type = IpoibType::kIpv4;
  Bytes bytes;
  absl::optional<IpoibAddress> source;
  bool group = false;
};

void Feed(Input input, Translator* translator) {
  const auto bytes = absl::MakeSpan(input.bytes);
  input.from_ethernet ? translator->FromEthernet(bytes, {})
                      : translator->FromIpoib({input.type, bytes, input.source, input.group});
}

auto Fields(const SinkForTest::Output& o) {
  return std::make_tuple(o.kind, o.destination, o.source, o.to, ToMgid(o.group), o.beyond_link,
                         o.type, o.payload);
}

std::vector<uint64_t> Values(const Counters& counters) {
  std::vector<uint64_t> values;
  for (size_t i = 0; i < counters.drops.kSize; ++i)
    values.push_back(counters[static_cast<Drop>(i)]);
  for (size_t i = 0; i < counters.events.kSize; ++i)
    values.push_back(counters[static_cast<Event>(i)]);
  return values;
}

std::vector<uint64_t> Difference(const std::vector<uint64_t>& after,
                                 const std::vector<uint64_t>& before) {
  std::vector<uint64_t> difference(after.size());
  std::transform(after.begin(), after.end(), before.begin(), difference.begin(), std::minus<>());
  return difference;
}

class TranslatorCopyTest : public TranslatorTest, public testing::WithParamInterface<unsigned> {
 protected:
  TranslatorCopyTest() : TranslatorTest(SmallTables()), random_(GetParam()) {}

  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  int Host() { return 1 + Below(kHosts); }
  Ipv4Addr AnyIp() { return Below(2) == 0 ? HostIp(Host()) : PeerIp(Host()); }

  Input EthernetArpOf(ArpOperation operation) {
    const int n = Host();
    const bool answers = operation == ArpOperation::kReply;
    const MacAddr to = answers ? PeerMac(Host()) : MacAddr::Broadcast();
    const EthernetArp arp{operation, HostMac(n), Below(8) == 0 ? Ipv4Addr() : HostIp(n),
                          answers ? to : MacAddr(), AnyIp()};
    return {true, {}, Frame(to, HostMac(n), kEtherTypeArp, ArpBytes(arp)), {}, false};
  }
  Input IpoibArpOf(ArpOperation operation) {
    const int n = Host();
    const bool answers = operation == ArpOperation::kReply;
    IpoibAddress from = PeerAddr(n);
    if (Below(8) == 0) from = {Qpn(from.qpn().value() + 0x100), from.gid()};
    const IpoibArp arp{operation, from, PeerIp(n), answers ? kLinkForTest.own : IpoibAddress(),
                       AnyIp()};
    return {false, IpoibType::kArp, ArpBytes(arp), from, !answers};
  }
  Input EthernetPacket() {
    const int n = Host();
    const size_t size = Below(3) == 0 ? 2040 : 8;
    const bool ipv6 = Below(3) == 0;
    const Bytes packet =
        ipv6 ? Udp6(HostIp6(n), PeerIp6(Host()), size) : Udp4(HostIp(n), PeerIp(Host()), size);
    return {true,
            {},
            Frame(PeerMac(Host()), HostMac(n), ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4, packet),
            {},
            false};
  }
  Input IpoibPacket() {
    const int n = Host();
    const Bytes packet = Below(4) == 0 ? Udp4(PeerIp(n), Ip4("8.8.8.8"))
                                       : Udp4(PeerIp(n), HostIp(Host()), Below(2) * 1490u);
    const auto source = Below(4) == 0 ? absl::nullopt : absl::make_optional(PeerAddr(n));
    return {false, IpoibType::kIpv4, packet, source, false};
  }
  Input Solicitation() {
    Bytes packet;
    if (Below(2) == 0) {
      const int n = Host();
      BuildAdvertisement(HostIp6(n), false, HostMac(n), &packet);
      return {true, {}, Frame(GroupMac(kAllNodes), HostMac(n), kEtherTypeIpv6, packet), {}, false};
    }
    const int n = Host();
    BuildAdvertisement(PeerIp6(n), false, PeerAddr(n), &packet);
    return {false, IpoibType::kIpv6, packet, PeerAddr(n), true};
  }
  // A host's report of a group, as in RFC 1112, appendix I.
  Input Report() {
    const Ipv4Addr group(0xef01'0200 + static_cast<uint32_t>(Below(20)));
    Bytes packet = Udp4(HostIp(Host()), group, 0);
    packet[9] = 2;
    const auto last = static_cast<uint8_t>(group.value());
    const Bytes igmp = {0x12, 0, 0, 0, 0xef, 1, 2, last};
    std::copy(igmp.begin(), igmp.end(), packet.begin() + 20);
    WriteWire(be16(static_cast<uint16_t>(~OnesComplementSum(absl::MakeConstSpan(igmp), 0))),
              &packet[22]);
    WriteWire(be16(0), &packet[10]);
    const uint32_t header = OnesComplementSum(absl::MakeConstSpan(packet).first(20), 0);
    WriteWire(be16(static_cast<uint16_t>(~header)), &packet[10]);
    return {true, {}, Frame(GroupMac(group), HostMac(Host()), kEtherTypeIpv4, packet), {}, false};
  }
  // One of the gateway's own frames comes back.
  Input Loop() {
    const MacAddr own = translator_.state().own_mac;
    return {
        true, {}, Frame(PeerMac(1), own, kEtherTypeIpv4, Udp4(HostIp(1), PeerIp(1))), {}, false};
  }
  Input Any() {
    switch (Below(10)) {
      case 8:
        return Report();
      case 9:
        return Loop();
      case 0:
        return EthernetArpOf(ArpOperation::kReply);
      case 1:
        return IpoibArpOf(ArpOperation::kReply);
      case 2:
        return EthernetArpOf(ArpOperation::kRequest);
      case 3:
        return IpoibArpOf(ArpOperation::kRequest);
      case 4:
        return Solicitation();
      case 5:
        return IpoibPacket();
    }
    return EthernetPacket();
  }

  void ChangeSomething() {
    const auto another = [](int n) {
      auto link = kLinkForTest;
      link.own = {Qpn(0x99u + static_cast<uint32_t>(n)), link.own.gid()};
      return link;
    };
    switch (Below(20)) {
      case 0:
        return translator_.OnLinkState(absl::nullopt);
      case 1:
      case 2:
        return translator_.OnLinkState(another(Below(3)));
      case 3:
        return translator_.SetActive(Below(3) != 0);
      case 4:
        return translator_.SetOtherGateways(Below(2) == 0 ? std::vector<IpoibAddress>()
                                                          : std::vector{PeerAddr(1)});
      case 5:
        return translator_.SetEthernetMtu(Below(2) == 0 ? 1500 : 9000);
      case 6:
      case 7:
        return Advance(absl::Seconds(Below(60)));
    }
    Advance(absl::Milliseconds(Below(300)));
  }

  // The outputs and the change of the counters that an copy predicts.
  std::pair<std::vector<SinkForTest::Output>, std::vector<uint64_t>> Try(const Input& input) {
    trial_ = SinkForTest();
    Translator copy(QuietOptions(SmallTables()), &clock_, &trial_);
    copy.CopyFrom(translator_);
    trial_ = SinkForTest();
    // Its sink's calls during CopyFrom mean nothing; from here on both must make the same calls.
    trial_.listening = sink_.listening;
    const std::vector<uint64_t> before = Values(copy.counters());
    Feed(input, &copy);
    return {trial_.Take(), Difference(Values(copy.counters()), before)};
  }

  std::mt19937 random_;
  SinkForTest trial_;
};

TEST_P(TranslatorCopyTest, TreatsPacketsAsTheOriginal) {
  size_t sent = 0;
  for (int step = 0; step < 1500 && !HasFailure(); ++step) {
    ChangeSomething();
    const Input input = Any();
    const SavedTables tables = translator_.Save();
    const std::vector<uint64_t> before = Values(translator_.counters());
    const auto [outputs, counted] = Try(input);
    ASSERT_TRUE(translator_.Save() == tables && Values(translator_.counters()) == before)
        << "asking changed something";
    sink_.Take();
    Feed(input, &translator_);
    const std::vector<SinkForTest::Output> real = sink_.Take();
    ASSERT_EQ(counted, Difference(Values(translator_.counters()), before)) << "step " << step;
    ASSERT_EQ(trial_.listening.size(), sink_.listening.size()) << "step " << step;
    ASSERT_EQ(outputs.size(), real.size()) << "step " << step;
    for (size_t i = 0; i < real.size(); ++i)
      ASSERT_TRUE(Fields(outputs[i]) == Fields(real[i])) << "step " << step;
    sent += real.size();
  }
  EXPECT_GT((*this)[Event::kCrossed], 100u) << "or the test shows little";
  EXPECT_GT(sent, 100u);
  for (const Drop drop : {Drop::kSilentTarget, Drop::kThrottled, Drop::kStandby, Drop::kTooBig,
                          Drop::kUnknownStation, Drop::kLoop}) {
    EXPECT_GT((*this)[drop], 0u) << InfoOf(drop).label;
  }
  for (const Event event :
       {Event::kTooBigLimited, Event::kListenLimited, Event::kFragmented, Event::kEvicted}) {
    EXPECT_GT((*this)[event], 0u) << InfoOf(event).label;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TranslatorCopyTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace eoib::translation
