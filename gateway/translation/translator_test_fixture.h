// The fixture of the translation's tests: a sink that records its calls, hosts on both sides, and
// their packets. Test only.
#ifndef EOIB_GATEWAY_TRANSLATION_TRANSLATOR_TEST_FIXTURE_H_
#define EOIB_GATEWAY_TRANSLATION_TRANSLATOR_TEST_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "gateway/translation/addresses_for_test.h"
#include "gateway/translation/nd_packet.h"
#include "gateway/translation/translator.h"
#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib::translation {

using Bytes = std::vector<uint8_t>;

// Records the translation's outputs, and the groups that it listens to.
class SinkForTest final : public Sink {
 public:
  struct Output {
    enum class Kind : uint8_t { kFrame, kPacket, kGroup } kind;
    MacAddr destination, source;  // of a frame
    IpoibAddress to;              // of a packet
    IpoibGroup group;             // of one for a group
    bool beyond_link = false;
    uint16_t type = 0;
    Bytes payload;
  };

  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                  absl::Span<const uint8_t> payload) override {
    outputs.push_back(
        {Output::Kind::kFrame, destination, source, {}, {}, false, ethertype, Copy(payload)});
  }
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override {
    outputs.push_back(
        {Output::Kind::kPacket, {}, {}, to, {}, false, static_cast<uint16_t>(type), Copy(payload)});
  }
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                    bool beyond_link) override {
    outputs.push_back({Output::Kind::kGroup,
                       {},
                       {},
                       {},
                       group,
                       beyond_link,
                       static_cast<uint16_t>(type),
                       Copy(payload)});
  }
  void Listen(const IpoibGroup& group) override {
    EXPECT_TRUE(listening.insert({ToMgid(group), group}).second) << "twice";
  }
  void Unlisten(const IpoibGroup& group) override {
    EXPECT_EQ(listening.erase(ToMgid(group)), 1u) << "never listened to";
  }

  std::vector<Output> Take() { return std::exchange(outputs, {}); }
  size_t Count(Output::Kind kind) const {
    return static_cast<size_t>(std::count_if(outputs.begin(), outputs.end(),
                                             [kind](const auto& o) { return o.kind == kind; }));
  }

  std::vector<Output> outputs;
  std::map<Mgid, IpoibGroup> listening;

 private:
  static Bytes Copy(absl::Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }
};

using OutputKind = SinkForTest::Output::Kind;

inline Gid GidOf(uint64_t port) {
  return Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'0000'0000 + port));
}

// Ethernet host N: 02:00:5e:10:00:0N, 10.0.0.N, fd00::N. IPoIB host N: port N, QPN 0x40 +
// N, 10.0.0.100 + N, fd00::100 + N.
inline MacAddr HostMac(int n) {
  return MacAddr::FromUint64(0x0200'5e10'0000 + static_cast<uint64_t>(n));
}
inline Ipv4Addr HostIp(int n) { return Ipv4Addr(0x0a00'0000 + static_cast<uint32_t>(n)); }
inline Ipv6Addr HostIp6(int n) {
  return Ipv6Addr::FromPrefixAndInterfaceId(0xfd00'0000'0000'0000,
                                            InterfaceId(static_cast<uint64_t>(n)));
}
inline IpoibAddress PeerAddr(int n) {
  return {Qpn(0x40 + static_cast<uint32_t>(n)), GidOf(static_cast<uint64_t>(n))};
}
inline Ipv4Addr PeerIp(int n) { return HostIp(100 + n); }
inline Ipv6Addr PeerIp6(int n) { return HostIp6(0x100 + n); }
inline MacAddr PeerMac(int n) { return StationMac({PeerAddr(n).gid(), 0}, 0); }

inline const ipoib::LinkState kLinkForTest{
    {Qpn(0x99), GidOf(0x99)}, {PKey(0x8001), MulticastScope::LinkLocal()}, 2044};

inline Bytes Udp4(Ipv4Addr source, Ipv4Addr destination, size_t payload = 8, uint16_t from = 1000,
                  uint16_t to = 2000) {
  Bytes out(kUdp4HeadersSize + payload);
  const Bytes data(payload, 0x55);
  EXPECT_FALSE(BuildUdp4({source, destination, from, to}, data, absl::MakeSpan(out)).empty());
  return out;
}

inline Bytes Udp6(const Ipv6Addr& source, const Ipv6Addr& destination, size_t payload = 8) {
  Bytes out(48 + payload, 0x55);
  Ipv6Wire header;
  header.version_class_flow = 6u << 28;
  header.payload_length = static_cast<uint16_t>(8 + payload);
  header.next_header = kProtocolUdp;
  header.hop_limit = 64;
  header.source = source.bytes();
  header.destination = destination.bytes();
  WriteWire(header, out.data());
  WriteWire(be16(static_cast<uint16_t>(8 + payload)), &out[44]);
  EXPECT_TRUE(WriteChecksum(absl::MakeSpan(out)));
  return out;
}

template <typename LinkAddress>
Bytes ArpBytes(const ArpPacket<LinkAddress>& arp) {
  Bytes out(ArpPacket<LinkAddress>::kSize);
  EXPECT_TRUE(EncodeArp(arp, absl::MakeSpan(out)));
  return out;
}

inline Bytes Frame(MacAddr destination, MacAddr source, uint16_t ethertype, const Bytes& payload) {
  Bytes frame(14);
  destination.ToWire(&frame[0]);
  source.ToWire(&frame[6]);
  WriteWire(be16(ethertype), &frame[12]);
  frame.insert(frame.end(), payload.begin(), payload.end());
  if (frame.size() < 60) frame.resize(60);
  return frame;
}

class TranslatorTest : public testing::Test {
 protected:
  explicit TranslatorTest(Options options = {})
      : translator_(QuietOptions(options), &clock_, &sink_) {
    translator_.OnLinkState(kLinkForTest);
    translator_.Tick();
    sink_.outputs.clear();
  }
  static Options QuietOptions(Options options) {
    options.query_groups = false;
    return options;
  }

  void FromEthernet(Bytes frame) { translator_.FromEthernet(absl::MakeSpan(frame), {}); }
  void FromIpoib(IpoibType type, Bytes payload, absl::optional<IpoibAddress> source, bool group) {
    translator_.FromIpoib({type, absl::MakeSpan(payload), source, group});
  }
  void Advance(absl::Duration by) {
    // In steps: the daemon would wake up at each deadline.
    const absl::Time end = clock_.Now() + by;
    while (clock_.Now() < end) {
      const absl::Time next =
          std::min(end, std::max(translator_.NextDeadline(), clock_.Now() + absl::Microseconds(1)));
      clock_.Advance(next - clock_.Now());
      translator_.Tick();
    }
  }

  // Ethernet host `n` broadcasts an ARP request for `target`; PeerAsks: IPoIB host `n` does.
  void HostAsks(int n, Ipv4Addr target) {
    FromEthernet(Frame(
        MacAddr::Broadcast(), HostMac(n), kEtherTypeArp,
        ArpBytes(EthernetArp{ArpOperation::kRequest, HostMac(n), HostIp(n), MacAddr(), target})));
  }
  void PeerAsks(int n, Ipv4Addr target, absl::optional<IpoibAddress> address = {}) {
    const IpoibAddress from = address.value_or(PeerAddr(n));
    FromIpoib(IpoibType::kArp,
              ArpBytes(IpoibArp{ArpOperation::kRequest, from, PeerIp(n), IpoibAddress(), target}),
              from, true);
  }
  // The host says by gratuitous ARP that it has `ip`.
  void HostClaims(int n, Ipv4Addr ip) {
    FromEthernet(
        Frame(MacAddr::Broadcast(), HostMac(n), kEtherTypeArp,
              ArpBytes(EthernetArp{ArpOperation::kRequest, HostMac(n), ip, MacAddr(), ip})));
  }
  void PeerClaims(int n, Ipv4Addr ip) {
    const IpoibArp arp{ArpOperation::kRequest, PeerAddr(n), ip, IpoibAddress(), ip};
    FromIpoib(IpoibType::kArp, ArpBytes(arp), PeerAddr(n), true);
  }
  // Makes the gateway learn both hosts' IPv4 and IPv6 addresses; clears the recorded outputs.
  void Introduce(int host, int peer) {
    HostAsks(host, HostIp(host));
    PeerAsks(peer, PeerIp(peer));
    Bytes packet;
    BuildAdvertisement(HostIp6(host), false, HostMac(host), &packet);
    FromEthernet(Frame(GroupMac(kAllNodes), HostMac(host), kEtherTypeIpv6, packet));
    BuildAdvertisement(PeerIp6(peer), false, PeerAddr(peer), &packet);
    FromIpoib(IpoibType::kIpv6, packet, PeerAddr(peer), true);
    sink_.outputs.clear();
  }
  void HostSends(int host, int peer, const Bytes& packet) {
    FromEthernet(Frame(PeerMac(peer), HostMac(host),
                       packet[0] >> 4 == 4 ? kEtherTypeIpv4 : kEtherTypeIpv6, packet));
  }
  void PeerSends(int peer, const Bytes& packet) {
    FromIpoib(packet[0] >> 4 == 4 ? IpoibType::kIpv4 : IpoibType::kIpv6, packet, PeerAddr(peer),
              false);
  }
  uint64_t operator[](Drop drop) const { return translator_.counters()[drop]; }
  uint64_t operator[](Event event) const { return translator_.counters()[event]; }

  // Each packet has one disposition.
  void ExpectConservation() const {
    const auto& c = translator_.counters();
    EXPECT_EQ(c[Event::kFramesIn] + c[Event::kPacketsIn],
              c[Event::kCrossed] + c[Event::kHeldPackets] + c.InputDrops());
    EXPECT_EQ(c[Event::kWaited],
              c[Event::kReleased] + c[Drop::kUnanswered] + translator_.state().resolution.held());
  }
  void TearDown() override { ExpectConservation(); }

  FakeClock clock_;
  SinkForTest sink_;
  Translator translator_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_TRANSLATOR_TEST_FIXTURE_H_
