// The body of this room's fuzz targets. The invariant: for any input, each packet that comes out is
// well-formed. Test only.
//
// The input is a list of packets: a byte of flags, two bytes of length, the packet. One gateway
// takes them in turn, so later packets meet the state that earlier ones made.
#ifndef EOIB_GATEWAY_TRANSLATION_FUZZ_FOR_TEST_H_
#define EOIB_GATEWAY_TRANSLATION_FUZZ_FOR_TEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "gateway/translation/translator.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ip_packet.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::translation {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

inline ChecksumVerdict SumOf(absl::Span<const uint8_t> bytes) {
  if (const auto ipv4 = ParseIpv4Packet(bytes); ipv4.has_value()) return VerifyChecksum(*ipv4);
  if (const auto ipv6 = ParseIpv6Packet(bytes); ipv6.has_value()) return VerifyChecksum(*ipv6);
  return ChecksumVerdict::kUnknown;
}

// Checks each output as strictly as a host of that side would.
class StrictSink final : public Sink {
 public:
  static constexpr uint32_t kEthernetMtu = 1500, kIpoibMtu = 2044;

  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                  absl::Span<const uint8_t> payload) override {
    Require(!source.IsGroup() && !source.IsZero() && !destination.IsZero() &&
            payload.size() <= kEthernetMtu);
    if (ethertype == kEtherTypeArp || ethertype == kEtherTypeRarp)
      return CheckArp(ParseEthernetArp(payload), payload, ethertype);
    CheckIp(ethertype, payload,
            [](const NdOption& option) { return EthernetLinkAddress(option).has_value(); });
  }
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override {
    Require(!to.IsGroup() && !to.gid().IsZero() && to != own);
    CheckIpoib(type, payload);
  }
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                    bool beyond_link) override {
    Require(group.link == link && ParseIpoibMgid(ToMgid(group)).has_value() &&
            !(beyond_link && group.IsBroadcast()));
    CheckIpoib(type, payload);
  }
  void Listen(const IpoibGroup& group) override {
    Require(group.link == link && ++listening <= 1024 + 6);
  }
  void Unlisten(const IpoibGroup&) override { Require(listening-- > 0); }

  static constexpr IpoibLink link{PKey(0x8001), MulticastScope::LinkLocal()};
  const IpoibAddress own{Qpn(0x99), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x99))};
  bool wrong_sums = false;  // an input had a wrong checksum, so an output may have one
  int listening = 0;

 private:
  template <typename Arp>
  static void CheckArp(const absl::optional<Arp>& arp, absl::Span<const uint8_t> payload,
                       uint16_t ethertype) {
    Require(arp.has_value() && payload.size() == Arp::kSize);
    Require((arp->operation >= ArpOperation::kReverseRequest) == (ethertype == kEtherTypeRarp));
    Require(arp->sender != decltype(arp->sender)());
  }
  void CheckIpoib(IpoibType type, absl::Span<const uint8_t> payload) {
    Require(payload.size() <= kIpoibMtu);
    const auto ethertype = static_cast<uint16_t>(type);
    if (type == IpoibType::kArp || type == IpoibType::kRarp)
      return CheckArp(ParseIpoibArp(payload), payload, ethertype);
    CheckIp(ethertype, payload,
            [](const NdOption& option) { return IpoibLinkAddress(option).has_value(); });
  }
  template <typename IsLinkAddress>
  void CheckIp(uint16_t ethertype, absl::Span<const uint8_t> payload,
               IsLinkAddress is_link_address) {
    if (ethertype == kEtherTypeIpv4) {
      const auto packet = ParseIpv4Packet(payload);
      Require(packet.has_value() && packet->bytes.size() == payload.size());
    } else {
      const auto packet = ParseIpv6Packet(payload);
      Require(ethertype == kEtherTypeIpv6 && packet.has_value() &&
              packet->bytes.size() == payload.size());
    }
    Require(wrong_sums || SumOf(payload) != ChecksumVerdict::kWrong);
    NdMessage message;
    const NdVerdict verdict =
        ethertype == kEtherTypeIpv6 ? ParseNeighborDiscovery(payload, &message) : NdVerdict::kOther;
    Require(verdict != NdVerdict::kBad);
    if (verdict == NdVerdict::kOther) return;
    for (const NdOption& option : message.options) {
      Require(!IsSendOption(option.type));
      const bool link_address = option.type == NdOptionType::kSourceLinkAddress ||
                                option.type == NdOptionType::kTargetLinkAddress;
      Require(!link_address || is_link_address(option));
    }
  }
};

class FuzzedGateway {
 public:
  explicit FuzzedGateway(uint16_t ethertype)
      : ethertype_(ethertype), translator_(SmallTables(), &clock_, &sink_) {
    translator_.OnLinkState(ipoib::LinkState{sink_.own, StrictSink::link, StrictSink::kIpoibMtu});
    translator_.Tick();
    // The gateway knows an Ethernet host 10.0.0.1 and an IPoIB host 10.0.0.2.
    std::vector<uint8_t> arp(EthernetArp::kSize);
    EncodeArp(
        EthernetArp{ArpOperation::kRequest, kHost, Ipv4Addr(0x0a000001), {}, Ipv4Addr(0x0a000001)},
        absl::MakeSpan(arp));
    FromEthernet(MacAddr::Broadcast(), kEtherTypeArp, arp, {});
    arp.resize(IpoibArp::kSize);
    EncodeArp(
        IpoibArp{ArpOperation::kRequest, peer_, Ipv4Addr(0x0a000002), {}, Ipv4Addr(0x0a000002)},
        absl::MakeSpan(arp));
    translator_.FromIpoib({IpoibType::kArp, absl::MakeSpan(arp), peer_, true});
  }

  // Bits of flags: 1 from IPoIB; 2 to a group; 4 without source (IPoIB), or with a checksum to
  // complete (Ethernet); 8 with repaired lengths and checksums; 16 one second later; 32 from
  // another queue pair of the port (IPoIB); 64 not a packet but an event: see Control.
  void Run(absl::Span<const uint8_t> input) {
    while (input.size() > 3) {
      const uint8_t flags = input[0];
      const size_t length = std::min<size_t>(ReadWire<be16>(&input[1]).value(), input.size() - 3);
      std::vector<uint8_t> payload(input.begin() + 3,
                                   input.begin() + 3 + static_cast<ptrdiff_t>(length));
      input.remove_prefix(3 + length);
      if ((flags & 8) != 0) Repair(&payload);
      if ((flags & 16) != 0) clock_.Advance(absl::Seconds(1));
      sink_.wrong_sums =
          sink_.wrong_sums || SumOf(payload) == ChecksumVerdict::kWrong || (flags & 5) == 4;
      if ((flags & 64) != 0) {
        Control(payload);
        continue;
      }
      (flags & 1) != 0 ? FromIpoib(flags, &payload) : FromEthernet(flags, payload);
      translator_.Tick();
    }
    for (int i = 0; i < 50 && translator_.NextDeadline() < absl::InfiniteFuture(); ++i) {
      clock_.Advance(std::max(absl::ZeroDuration(), translator_.NextDeadline() - clock_.Now()));
      translator_.Tick();
    }
    CheckConservation();
  }

 private:
  // Small limits, so that the tables fill up.
  static Options SmallTables() {
    Options options;
    options.max_stations = options.max_stations_per_gid = 3;
    options.max_neighbors = options.max_station_ips = 6;
    options.max_ips_per_station = 4;
    options.max_groups = options.max_held_targets = options.max_pending_requests =
        options.max_silent = 4;
    options.max_prefixes = 4;
    return options;
  }
  static constexpr MacAddr kHost = MacAddr::FromUint64(0x0200'5e10'0001);

  // Events other than packets; the first byte selects one.
  void Control(absl::Span<const uint8_t> what) {
    const ipoib::LinkState link{sink_.own, StrictSink::link, StrictSink::kIpoibMtu};
    if (what.empty()) return;
    if (what[0] == 0) translator_.OnLinkState(absl::nullopt);
    if (what[0] == 1) translator_.OnLinkState(link);
    if (what[0] == 2 || what[0] == 3) translator_.SetActive(what[0] == 3);
    if (what[0] == 4) translator_.SetOtherGateways({peer_});
    if (what[0] == 5) clock_.Advance(absl::Minutes(31));
    if (what[0] == 6) clock_.Advance(absl::Hours(25));
    if (what[0] == 7) CheckRestore();
    translator_.Tick();
  }
  // A gateway that restores this one's tables has the same tables, and announces them.
  void CheckRestore() {
    const SavedTables saved = translator_.Save();
    StrictSink sink;
    Translator restored(SmallTables(), &clock_, &sink);
    restored.Restore(saved);
    Require(restored.Save() == saved && restored.Dump().size() == translator_.Dump().size());
    restored.OnLinkState(ipoib::LinkState{sink.own, StrictSink::link, StrictSink::kIpoibMtu});
    restored.Tick();
    Require(restored.counters()[Event::kAnnounced] == CountOfLatest(saved));
  }
  // How many addresses are announced: one that both sides have had is announced for the side that
  // was heard last.
  static size_t CountOfLatest(const SavedTables& saved) {
    std::vector<SavedIp> all;
    for (const SavedStation& station : saved.stations)
      all.insert(all.end(), station.ips.begin(), station.ips.end());
    for (const SavedNeighbor& neighbor : saved.neighbors) all.push_back(neighbor.ip);
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&all](const SavedIp& ip) {
      return std::none_of(all.begin(), all.end(), [&ip](const SavedIp& other) {
        return other.ip == ip.ip && other.age < ip.age;
      });
    }));
  }

  void FromIpoib(uint8_t flags, std::vector<uint8_t>* payload) {
    const IpoibAddress address = (flags & 32) != 0 ? IpoibAddress(Qpn(0x49), peer_.gid()) : peer_;
    const auto source = (flags & 4) != 0 ? absl::nullopt : absl::make_optional(address);
    translator_.FromIpoib(
        {static_cast<IpoibType>(ethertype_), absl::MakeSpan(*payload), source, (flags & 2) != 0});
  }
  void FromEthernet(uint8_t flags, absl::Span<const uint8_t> payload) {
    MacAddr destination = StationMac({peer_.gid(), 0}, 0);
    if ((flags & 2) != 0) destination = GroupOfPayload(payload);
    ChecksumRequest checksum;
    if ((flags & 4) != 0 && payload.size() > 4)
      checksum = {true, static_cast<uint16_t>(14 + payload[1] % 64), payload[3]};
    FromEthernet(destination, ethertype_, payload, checksum);
  }
  void FromEthernet(MacAddr destination, uint16_t ethertype, absl::Span<const uint8_t> payload,
                    const ChecksumRequest& checksum) {
    std::vector<uint8_t> frame(kEthernetHeaderSize);
    destination.ToWire(&frame[0]);
    kHost.ToWire(&frame[6]);
    WriteWire(be16(ethertype), &frame[12]);
    frame.insert(frame.end(), payload.begin(), payload.end());
    translator_.FromEthernet(absl::MakeSpan(frame), checksum);
  }
  // The MAC address of the packet's destination group; else the broadcast address.
  static MacAddr GroupOfPayload(absl::Span<const uint8_t> payload) {
    const auto ipv4 = ParseIpv4Packet(payload);
    if (ipv4.has_value() && ipv4->destination.IsMulticast()) return GroupMac(ipv4->destination);
    const auto ipv6 = ParseIpv6Packet(payload);
    if (ipv6.has_value() && ipv6->destination.IsMulticast()) return GroupMac(ipv6->destination);
    return MacAddr::Broadcast();
  }

  // Corrects lengths and checksums, which a fuzzer would not guess.
  void Repair(std::vector<uint8_t>* packet) const {
    const size_t size = std::min<size_t>(packet->size(), 0xffff);
    if (ethertype_ == kEtherTypeIpv4 && size >= sizeof(Ipv4Wire)) {
      packet->resize(size);
      (*packet)[0] = static_cast<uint8_t>(0x45);
      WriteWire(be16(static_cast<uint16_t>(size)), &(*packet)[2]);
      WriteIpv4Checksum(absl::MakeSpan(*packet).first(sizeof(Ipv4Wire)));
    } else if (ethertype_ == kEtherTypeIpv6 && size >= sizeof(Ipv6Wire)) {
      packet->resize(size);
      (*packet)[0] = static_cast<uint8_t>(0x60 | ((*packet)[0] & 0xf));
      WriteWire(be16(static_cast<uint16_t>(size - sizeof(Ipv6Wire))), &(*packet)[4]);
    } else {
      return;
    }
    WriteChecksum(absl::MakeSpan(*packet));
  }

  void CheckConservation() const {
    const Counters& c = translator_.counters();
    Require(c[Event::kFramesIn] + c[Event::kPacketsIn] ==
            c[Event::kCrossed] + c[Event::kHeldPackets] + c.InputDrops());
    Require(c[Event::kWaited] ==
            c[Event::kReleased] + c[Drop::kUnanswered] + translator_.state().resolution.held());
    Require(c[Drop::kOutputTooBig] == 0);
  }

  const uint16_t ethertype_;
  const IpoibAddress peer_{
      Qpn(0x48), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000, Guid(0x0002'c903'000e'0b72))};
  FakeClock clock_;
  StrictSink sink_;
  Translator translator_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_FUZZ_FOR_TEST_H_
