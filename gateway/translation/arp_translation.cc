#include "gateway/translation/arp_translation.h"

#include <array>
#include <type_traits>

namespace eoib::translation {
namespace {

bool IsReverse(ArpOperation operation) {
  return operation == ArpOperation::kReverseRequest || operation == ArpOperation::kReverseReply;
}

// RFC 903: RARP operations have their own EtherType.
bool Agrees(ArpOperation operation, uint16_t ethertype) {
  return IsReverse(operation) == (ethertype == kEtherTypeRarp);
}

bool IsHostOrUnspecified(Ipv4Addr ip) { return ip.IsZero() || IpAddr(ip).CanBeHost(); }

}  // namespace

Drop ArpTranslation::FromEthernet(const EthernetInfo& frame, absl::Span<const uint8_t> payload) {
  const absl::optional<EthernetArp> arp = ParseEthernetArp(payload);
  if (!arp.has_value() || !Agrees(arp->operation, frame.ethertype) ||
      !IsHostOrUnspecified(arp->sender_ip))
    return Drop::kMalformed;
  if (const Drop drop = state_.CheckClaimedMac(arp->sender); drop != Drop::kNone) return drop;
  const bool direct = !frame.destination.IsGroup();
  Learn(*arp, direct);
  const Station* const to = direct ? state_.stations.FindByMac(frame.destination) : nullptr;
  if (direct && to == nullptr) return Drop::kUnknownStation;
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  if (const Drop drop = direct ? Drop::kNone : MayCross(*arp, frame.source); drop != Drop::kNone)
    return drop;

  Remember(*arp);
  std::array<uint8_t, IpoibArp::kSize> out;
  EncodeArp(IpoibArp{arp->operation, state_.output.own(), arp->sender_ip, ToIpoib(arp->target),
                     arp->target_ip},
            absl::MakeSpan(out));
  state_.counters.Add(Event::kArp);
  const auto type = static_cast<IpoibType>(frame.ethertype);
  to != nullptr ? state_.output.ToIpoib(type, out, to->address())
                : state_.output.Broadcast(type, out);
  return Drop::kNone;
}

void ArpTranslation::Learn(const EthernetArp& arp, bool direct) {
  const bool answers = arp.operation == ArpOperation::kReply && direct;
  if (!IsReverse(arp.operation)) {
    state_.LearnNeighbor(arp.sender_ip, arp.sender,
                         answers ? Neighbors::Claim::kAnswer : Neighbors::Claim::kHas);
  }
}

// Notes who requests what, so that a reply that does not name its destination finds the requester
// (pending_requests.h).
void ArpTranslation::Remember(const EthernetArp& arp) {
  if (arp.operation == ArpOperation::kRequest)
    state_.pending.Add(arp.target_ip, arp.sender, state_.now);
  if (arp.operation == ArpOperation::kReverseRequest)
    state_.pending.Add(Ipv4Addr(), arp.sender, state_.now);
}

// Whether a broadcast may cross to the other side. Announcements always may: they cause no replies,
// and hosts that know the sender must receive them.
template <typename LinkAddress>
Drop ArpTranslation::MayCross(const ArpPacket<LinkAddress>& arp, MacAddr requester) {
  const ArpPurpose purpose = PurposeOf(arp);
  if (purpose != ArpPurpose::kRequest && purpose != ArpPurpose::kProbe) return Drop::kNone;
  const bool probe = purpose == ArpPurpose::kProbe;
  return std::is_same_v<LinkAddress, MacAddr>
             ? state_.MaySolicitIpoib(arp.target_ip, requester, probe)
             : state_.MaySolicitEthernet(arp.target_ip, requester, probe);
}

IpoibAddress ArpTranslation::ToIpoib(MacAddr mac) const {
  if (mac.IsZero()) return {};
  if (mac.IsGroup())
    return IpoibAddress::OfGroup(ToMgid(BroadcastGroup(state_.output.link()->link)));
  const Station* const station = state_.stations.FindByMac(mac);
  return station != nullptr ? station->address() : state_.output.own();
}

Drop ArpTranslation::FromIpoib(const ipoib::Packet& packet) {
  const absl::optional<IpoibArp> arp = ParseIpoibArp(packet.payload);
  const auto ethertype = static_cast<uint16_t>(packet.type);
  if (!arp.has_value() || !Agrees(arp->operation, ethertype) ||
      !IsHostOrUnspecified(arp->sender_ip))
    return Drop::kMalformed;
  if (const Drop drop = state_.CheckClaimedSender(arp->sender, packet.source); drop != Drop::kNone)
    return drop;
  const Station* const sender = Learn(*arp, !packet.group);
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  if (!packet.group) return Deliver(packet.type, *arp, *sender);
  if (const Drop drop = MayCross(*arp, sender->mac); drop != Drop::kNone) return drop;
  Send(packet.type, *arp, *sender, MacAddr::Broadcast(), ToEthernet(arp->target));
  return Drop::kNone;
}

const Station* ArpTranslation::Learn(const IpoibArp& arp, bool direct) {
  using Claim = Stations::Claim;
  if (IsReverse(arp.operation)) return state_.LearnStation(arp.sender, Ipv4Addr(), Claim::kProbe);
  if (PurposeOf(arp) == ArpPurpose::kProbe)
    return state_.LearnStation(arp.sender, arp.target_ip, Claim::kProbe);
  const bool answers = arp.operation == ArpOperation::kReply && direct;
  return state_.LearnStation(arp.sender, arp.sender_ip, answers ? Claim::kAnswer : Claim::kHas);
}

// The gateway's own address stands for all Ethernet hosts, so it maps to no MAC address; neither
// does an unknown one.
MacAddr ArpTranslation::ToEthernet(const IpoibAddress& address) const {
  if (address.IsGroup()) return MacAddr::Broadcast();
  const Station* const station = state_.stations.FindByAddress(address);
  return station != nullptr ? station->mac : MacAddr();
}

// Unicast to the gateway is for one Ethernet host: a request goes to the host that has the target
// address, a reply to the host that asked.
Drop ArpTranslation::Deliver(IpoibType type, const IpoibArp& arp, const Station& sender) {
  if (arp.operation != ArpOperation::kRequest) {
    if (arp.operation != ArpOperation::kReverseRequest) return Answer(type, arp, sender);
    Send(type, arp, sender, MacAddr::Broadcast(), ToEthernet(arp.target));
    return Drop::kNone;
  }
  const absl::optional<MacAddr> mac = state_.neighbors.Find(arp.target_ip);
  if (!mac.has_value()) {
    if (const Drop drop = MayCross(arp, sender.mac); drop != Drop::kNone) return drop;
  }
  Send(type, arp, sender, mac.value_or(MacAddr::Broadcast()), mac.value_or(MacAddr()));
  return Drop::kNone;
}

Drop ArpTranslation::Answer(IpoibType type, const IpoibArp& arp, const Station& sender) {
  const bool reverse = arp.operation == ArpOperation::kReverseReply;
  const absl::optional<MacAddr> mac =
      reverse ? absl::nullopt : state_.neighbors.Find(arp.target_ip);
  if (mac.has_value()) {
    Send(type, arp, sender, *mac, *mac);
    return Drop::kNone;
  }
  const auto requesters =
      state_.pending.Requesters(reverse ? Ipv4Addr() : arp.sender_ip, state_.now);
  for (const MacAddr requester : requesters) Send(type, arp, sender, requester, requester);
  return requesters.empty() ? Drop::kUnknownAsker : Drop::kNone;
}

void ArpTranslation::Send(IpoibType type, const IpoibArp& arp, const Station& sender,
                          MacAddr destination, MacAddr target) {
  std::array<uint8_t, EthernetArp::kSize> out;
  EncodeArp(EthernetArp{arp.operation, sender.mac, arp.sender_ip, target, arp.target_ip},
            absl::MakeSpan(out));
  state_.counters.Add(Event::kArp);
  state_.output.ToEthernet(destination, sender.mac, static_cast<uint16_t>(type), out);
}

}  // namespace eoib::translation
