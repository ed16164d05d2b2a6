#include "gateway/translation/packet_translation.h"

#include "gateway/election/hello.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/group_report.h"
#include "vswitch/wire/ip/icmp_error.h"
#include "vswitch/wire/ip/ip_fragment.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/udp.h"

namespace eoib::translation {
namespace {

constexpr size_t kMostDhcpRequests = 1024;  // of each side
// RFC 2131 §4.1: a client repeats its request for about a minute.
constexpr absl::Duration kDhcpWait = absl::Minutes(1);

// Whether an address can be a source: not a group's, not 255.255.255.255 (RFC 1122 §3.2.1.3, RFC
// 4291 §2.7).
bool CanSend(const IpAddr& ip) { return !ip.IsMulticast() && !ip.ipv4().IsBroadcast(); }

absl::optional<Ipv4Packet> ParseLike(const Ipv4Packet&, absl::Span<const uint8_t> bytes) {
  return ParseIpv4Packet(bytes);
}
absl::optional<Ipv6Packet> ParseLike(const Ipv6Packet&, absl::Span<const uint8_t> bytes) {
  return ParseIpv6Packet(bytes);
}

}  // namespace

PacketTranslation::PacketTranslation(TranslationState* state, Delivery* delivery, Querier* querier)
    : state_(*state),
      delivery_(*delivery),
      querier_(*querier),
      errors_(state_.options.errors_per_second, state_.options.error_burst, state_.now),
      dhcp_requests_{AgedTable<uint32_t, Nothing>(kMostDhcpRequests),
                     AgedTable<uint32_t, Nothing>(kMostDhcpRequests)} {}

void PacketTranslation::CopyFrom(const PacketTranslation& other) {
  errors_ = other.errors_;
  for (const bool from_ethernet : {false, true})
    dhcp_requests_[from_ethernet].CopyFrom(other.dhcp_requests_[from_ethernet]);
}

// IGMP or MLD.
template <typename Message, typename Packet>
Drop PacketTranslation::LearnGroups(const Packet& packet, int no_suppression, bool from_ethernet,
                                    bool to_group) {
  Message message;
  const GroupVerdict verdict = ParseGroupMessage(packet, &message);
  if (verdict == GroupVerdict::kBad) return Drop::kMalformed;
  // Only a query that all hosts hear replaces the gateway's own.
  const bool to_all = to_group && (packet.destination == IpAddr(kAllHosts) ||
                                   packet.destination == IpAddr(kAllNodes));
  if (verdict == GroupVerdict::kQuery && to_all) querier_.HeardQuery(packet.source, state_.now);
  if (verdict == GroupVerdict::kReport && (from_ethernet || message.version < no_suppression)) {
    ForEachGroup(message,
                 [&](const IpAddr& group, bool wanted) { Heard(group, wanted, from_ethernet); });
  }
  return Drop::kNone;
}

// An error about a packet to a group comes from the gateway's own MAC address.
template <typename Packet>
Drop PacketTranslation::SendToIpoib(const Packet& packet, const FromEthernet& from,
                                    NextPacket more) {
  const auto type = static_cast<IpoibType>(from.frame.ethertype);
  const auto send = [&](absl::Span<const uint8_t> bytes) {
    from.station == nullptr ? state_.output.ToIpoibGroup(type, bytes, from.group)
                            : state_.output.ToIpoib(type, bytes, from.station->address());
    return Drop::kNone;
  };
  const auto report = [&](absl::Span<const uint8_t> error) {
    const MacAddr reporter = from.station != nullptr ? from.frame.destination : state_.own_mac;
    state_.output.ToEthernet(from.frame.source, reporter, from.frame.ethertype, error);
  };
  absl::optional<Packet> next = packet;
  Drop drop = Drop::kNone;
  while (drop == Drop::kNone && next.has_value()) {
    drop = Fit(*next, state_.output.ipoib_mtu(), from.station == nullptr, send, report);
    if (drop == Drop::kNone) next = ParseLike(packet, more());
  }
  return drop;
}

Drop PacketTranslation::Ipv4FromEthernet(const EthernetInfo& frame, absl::Span<uint8_t> payload,
                                         NextPacket more) {
  const absl::optional<Ipv4Packet> packet = ParseIpv4Packet(payload);
  if (!packet.has_value() || !CanSend(packet->source)) return Drop::kMalformed;
  state_.neighbors.HearFrom(packet->source, frame.source, state_.now);
  if (const Drop drop = LearnGroups<IgmpMessage>(*packet, 3, true, frame.destination.IsGroup());
      drop != Drop::kNone)
    return drop;
  FromEthernet from{frame, packet->source, packet->destination, nullptr, {}};
  if (const Drop drop = FindTarget(&from); drop != Drop::kNone) return drop;
  LearnDhcp(*packet, true);
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  Suspect(from);
  if (AskForBroadcast(payload.first(packet->bytes.size())))
    state_.counters.Add(Event::kDhcpBroadcast);
  return SendToIpoib(*packet, from, more);
}

Drop PacketTranslation::Ipv6FromEthernet(const EthernetInfo& frame,
                                         absl::Span<const uint8_t> payload, NextPacket more) {
  const absl::optional<Ipv6Packet> packet = ParseIpv6Packet(payload);
  if (!packet.has_value() || !CanSend(packet->source)) return Drop::kMalformed;
  state_.neighbors.HearFrom(packet->source, frame.source, state_.now);
  if (const Drop drop = LearnGroups<MldMessage>(*packet, 2, true, frame.destination.IsGroup());
      drop != Drop::kNone)
    return drop;
  FromEthernet from{frame, packet->source, packet->destination, nullptr, {}};
  if (const Drop drop = FindTarget(&from); drop != Drop::kNone) return drop;
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  Suspect(from);
  return SendToIpoib(*packet, from, more);
}

// A multicast packet to a unicast MAC address is for that station only (RFC 6085). A broadcast
// frame with an IPv4 unicast destination counts as a subnet broadcast (such as 192.0.2.255): the
// gateway does not know the mask.
Drop PacketTranslation::FindTarget(FromEthernet* packet) const {
  const MacAddr to = packet->frame.destination;
  if (!to.IsGroup()) {
    packet->station = state_.stations.FindByMac(to);
    return packet->station != nullptr ? Drop::kNone : Drop::kUnknownStation;
  }
  packet->group = packet->destination;
  if (packet->destination.IsMulticast()) {
    if (packet->destination == IpAddr(gateway::kHelloGroup)) return Drop::kHelloGroup;
    return to.IsBroadcast() || to == GroupMac(packet->destination) ? Drop::kNone
                                                                   : Drop::kGroupMismatch;
  }
  packet->group = Ipv4Addr::Broadcast();
  return to.IsBroadcast() && !packet->destination.is_ipv6() ? Drop::kNone : Drop::kGroupMismatch;
}

// Starts to solicit the station if it is silent. The solicitation is on behalf of the packet's
// sender.
void PacketTranslation::Suspect(const FromEthernet& packet) {
  const Station* const station = packet.station;
  if (station == nullptr || state_.now - station->heard < state_.options.suspect_after ||
      station->ips.empty())
    return;
  // The packet may be for a host behind the station, which is then a router: solicit any address of
  // the station itself.
  const bool own = state_.stations.FindByIp(packet.destination) == station;
  const IpAddr& target = own ? packet.destination : station->ips.front();
  const bool of_link = state_.neighbors.Find(packet.source) == packet.frame.source &&
                       packet.source.is_ipv6() == target.is_ipv6();
  const IpAddr unspecified = target.is_ipv6() ? IpAddr(Ipv6Addr()) : IpAddr(Ipv4Addr());
  state_.liveness.Suspect(
      {target, of_link ? packet.source : unspecified, packet.frame.source, false}, state_.now);
}

Drop PacketTranslation::Ipv4FromIpoib(const ipoib::Packet& from) {
  const absl::optional<Ipv4Packet> packet = ParseIpv4Packet(from.payload);
  if (!packet.has_value() || !CanSend(packet->source)) return Drop::kMalformed;
  const Station* station = nullptr;
  if (const Drop drop = FindSender(from, packet->source, &station); drop != Drop::kNone)
    return drop;
  if (const Drop drop = LearnGroups<IgmpMessage>(*packet, 3, false, from.group);
      drop != Drop::kNone)
    return drop;
  LearnDhcp(*packet, false);
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  // A unicast destination that came through a group is a subnet broadcast.
  const bool group =
      from.group || packet->destination.IsMulticast() || packet->destination.IsBroadcast();
  return SendToEthernet(*packet, from.type, *station, group);
}

Drop PacketTranslation::Ipv6FromIpoib(const ipoib::Packet& from) {
  const absl::optional<Ipv6Packet> packet = ParseIpv6Packet(from.payload);
  if (!packet.has_value() || !CanSend(packet->source)) return Drop::kMalformed;
  const Station* station = nullptr;
  if (const Drop drop = FindSender(from, packet->source, &station); drop != Drop::kNone)
    return drop;
  if (const Drop drop = LearnGroups<MldMessage>(*packet, 2, false, from.group); drop != Drop::kNone)
    return drop;
  const bool group = packet->destination.IsMulticast();
  if (from.group && !group) return Drop::kGroupMismatch;
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  return SendToEthernet(*packet, from.type, *station, group);
}

// A packet without a known link-layer source is attributed to the station that has its IP source,
// to give the frame its MAC address. It does not prove that the station is still at the same queue
// pair, so the station is not marked as heard.
Drop PacketTranslation::FindSender(const ipoib::Packet& packet, const IpAddr& ip,
                                   const Station** sender) {
  if (!packet.source.has_value()) {
    *sender = state_.stations.FindByIp(ip);
    if (*sender != nullptr) state_.counters.Add(Event::kAttributed);
    return *sender != nullptr ? Drop::kNone : Drop::kUnknownSource;
  }
  if (const Drop drop = state_.CheckStationAddress(*packet.source); drop != Drop::kNone)
    return drop;
  *sender = state_.stations.FindByAddress(*packet.source);
  if (*sender == nullptr || packet.group) {
    *sender = state_.LearnStation(*packet.source, ip, Stations::Claim::kProbe);
  } else {
    state_.stations.HearFrom(**sender, ip, state_.now);
  }
  return Drop::kNone;
}

template <typename Packet>
Drop PacketTranslation::SendToEthernet(const Packet& packet, IpoibType type, const Station& sender,
                                       bool group) {
  const Delivery::Packet to{packet.source, packet.destination, sender.mac,
                            static_cast<uint16_t>(type)};
  const auto send = [&](absl::Span<const uint8_t> bytes) {
    if (!group) return delivery_.ToNeighbor(to, bytes);
    state_.output.ToEthernet(GroupMac(to.destination), to.station, to.ethertype, bytes);
    return Drop::kNone;
  };
  const auto report = [&](absl::Span<const uint8_t> error) {
    state_.output.ToIpoib(type, error, sender.address());
  };
  return Fit(packet, state_.output.ethernet_mtu(), group, send, report);
}

Drop PacketTranslation::Fit(const Ipv4Packet& packet, uint32_t mtu, bool group, Emit emit,
                            Report report) {
  if (packet.bytes.size() <= mtu) return emit(packet.bytes);
  Drop result = Drop::kNone;
  const FragmentVerdict verdict = FragmentIpv4(packet, mtu, [&](absl::Span<const uint8_t> part) {
    state_.counters.Add(Event::kFragments);
    result = emit(part);
  });
  if (verdict == FragmentVerdict::kBad) return Drop::kMalformed;
  if (verdict == FragmentVerdict::kDone) {
    state_.counters.Add(Event::kFragmented);
    return result;
  }
  if (group) return Drop::kTooBig;  // RFC 1122 §3.2.2: no ICMP error for a broadcast
  IcmpErrorBuffer buffer;
  Tell(BuildFragmentationNeeded(
           packet, mtu, state_.options.icmp_sources.ipv4.value_or(packet.destination), &buffer),
       report);
  return Drop::kTooBig;
}

Drop PacketTranslation::Fit(const Ipv6Packet& packet, uint32_t mtu, bool /*group*/, Emit emit,
                            Report report) {
  if (packet.bytes.size() <= mtu) return emit(packet.bytes);
  IcmpErrorBuffer buffer;
  Tell(BuildPacketTooBig(packet, mtu, state_.options.icmp_sources.ipv6.value_or(packet.destination),
                         &buffer),
       report);
  return Drop::kTooBig;
}

void PacketTranslation::Tell(absl::Span<const uint8_t> error, Report report) {
  if (error.empty()) return;
  const bool may = errors_.Take(state_.now);
  state_.counters.Add(may ? Event::kTooBigSent : Event::kTooBigLimited);
  if (may) report(error);
}

// In IGMPv1, IGMPv2 and MLDv1 a host that hears another's report suppresses its own. So a report
// from IPoIB also counts for the Ethernet hosts in the group.
void PacketTranslation::Heard(const IpAddr& group, bool wanted, bool from_ethernet) {
  if (!from_ethernet) {
    if (wanted) state_.groups.Suppressed(group, state_.now);
    return;
  }
  if (state_.groups.Report(group, wanted, state_.now)) querier_.QueryGroup(group, state_.now);
}

void PacketTranslation::LearnDhcp(const Ipv4Packet& packet, bool from_ethernet) {
  if (packet.protocol != kProtocolUdp || packet.payload.size() < 2 * sizeof(be16) ||
      !packet.fragment.IsWhole())
    return;
  const uint16_t from = ReadWire<be16>(packet.payload.data()).value(),
                 to = ReadWire<be16>(&packet.payload[2]).value();
  // RFC 2131 §4.1: servers and relays send from port 67 to a client, or to a relay of another link.
  const bool is_reply = from == kDhcpServerPort && to == kDhcpClientPort;
  if (to != kDhcpServerPort && !is_reply) return;
  const absl::optional<UdpDatagram> datagram = ParseUdp(packet);
  if (!datagram.has_value()) return;
  const absl::optional<DhcpMessage> message = DhcpMessage::Parse(datagram->payload);
  if (!message.has_value()) return;
  if (is_reply) {
    if (message->fields().operation == BootpOperation::kReply)
      LearnReply(*message, packet.destination, from_ethernet);
  } else if (message->fields().operation == BootpOperation::kRequest) {
    dhcp_requests_[from_ethernet].HearOrAdd(message->fields().transaction, state_.now);
  }
}

// Learns only from replies to clients of this link that have asked: not from those to a relay, nor
// to a client behind a router that renews its lease. The client or the server is on IPoIB, so an
// Ethernet host cannot play both.
void PacketTranslation::LearnReply(const DhcpMessage& reply, Ipv4Addr destination,
                                   bool from_ethernet) {
  const auto asked = [&](bool ethernet) {
    const auto* const request = dhcp_requests_[ethernet].Find(reply.fields().transaction);
    return request != nullptr && state_.now - request->heard <= kDhcpWait;
  };
  if (!asked(false) && (from_ethernet || !asked(true)))
    return state_.counters.Add(Event::kUnaskedDhcp);
  const IpAddr client = destination;
  const bool here = destination.IsBroadcast() || state_.stations.FindByIp(client) != nullptr ||
                    state_.neighbors.Find(client);
  if (here) state_.on_link.LearnDhcp(reply, state_.now);
  if (!from_ethernet && asked(true)) LearnClient(reply.fields(), destination);
}

// A server that ignores the broadcast flag sends to the address that the client will have, and the
// client cannot answer ARP for it yet. But the reply has the client's hardware address (RFC 2131
// §4.1). A client that already has its address (§4.3.5) answers ARP, and may be on another link.
void PacketTranslation::LearnClient(const DhcpFields& reply, Ipv4Addr destination) {
  if (reply.hardware_type != kDhcpEthernet || reply.hardware_length != MacAddr::kSize ||
      reply.yours != destination)
    return;
  if (!reply.client.IsZero()) return;
  state_.LearnNeighbor(destination, MacAddr::FromWire(reply.hardware_address.data()),
                       Neighbors::Claim::kWeak);
}

}  // namespace eoib::translation
