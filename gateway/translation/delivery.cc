#include "gateway/translation/delivery.h"

namespace eoib::translation {

Drop Delivery::ToNeighbor(const Packet& packet, absl::Span<const uint8_t> bytes) {
  const IpAddr& to = packet.destination;
  if (const auto mac = state_.neighbors.Find(to); mac.has_value()) {
    state_.output.ToEthernet(*mac, packet.station, packet.ethertype, bytes);
    return Drop::kNone;
  }
  // Only for alive_for: after a longer silence an Ethernet host may have the address.
  if (state_.stations.IpHeard(to) >= state_.now - state_.options.alive_for) return Drop::kSameSide;
  const OnLink::Where where = state_.on_link.WhereIs(to, state_.now);
  if (where == OnLink::Where::kBeyond) return ToRouter(packet, bytes);
  const bool try_router =
      where == OnLink::Where::kUnknown && state_.ethernet_limiter.HasFailed(to, state_.now);
  return try_router && Router(to.is_ipv6()).has_value() ? ToRouter(packet, bytes)
                                                        : Hold(to, packet, bytes);
}

void Delivery::Tick() {
  state_.resolution.Tick(
      state_.now, [this](const Solicitation& solicitation) { SolicitAgain(solicitation); },
      [this](const IpAddr& target) { GiveUp(target); });
}

Drop Delivery::ToRouter(const Packet& packet, absl::Span<const uint8_t> bytes) {
  const absl::optional<IpAddr> router = Router(packet.destination.is_ipv6());
  if (!router.has_value()) return Drop::kNoRoute;
  const absl::optional<MacAddr> mac = state_.neighbors.Find(*router);
  if (!mac.has_value()) return Hold(*router, packet, bytes);
  state_.output.ToEthernet(*mac, packet.station, packet.ethertype, bytes);
  return Drop::kNone;
}

Drop Delivery::Hold(const IpAddr& next_hop, const Packet& packet, absl::Span<const uint8_t> bytes) {
  if (!state_.resolution.IsWaitingFor(next_hop)) {
    if (const Drop drop = Ask(next_hop, packet); drop != Drop::kNone) return drop;
  }
  const size_t gone = state_.resolution.Hold(
      next_hop, {packet.ethertype, packet.station, {bytes.begin(), bytes.end()}});
  state_.counters.Add(Event::kWaited);
  for (size_t i = 0; i < gone; ++i) state_.counters.Add(Drop::kUnanswered);
  return Drop::kHeld;
}

Drop Delivery::Ask(const IpAddr& next_hop, const Packet& packet) {
  if (!next_hop.CanBeHost()) return Drop::kMalformed;
  if (state_.resolution.full()) return Drop::kHeldFull;
  const Drop drop = state_.ethernet_limiter.MaySolicit(
      next_hop, packet.station, SolicitationLimiter::Kind::kUnknownTarget, state_.now);
  if (drop != Drop::kNone) return drop;
  // Solicit from the packet's source address only if the sending station has it: a router forwards
  // packets of other hosts.
  const Station* const sender = state_.stations.FindByIp(packet.source);
  const bool own = sender != nullptr && sender->mac == packet.station;
  const IpAddr unspecified = next_hop.is_ipv6() ? IpAddr(Ipv6Addr()) : IpAddr(Ipv4Addr());
  const Solicitation solicitation{next_hop, own ? packet.source : unspecified, packet.station,
                                  false};
  state_.counters.Add(Event::kAsks);
  sender_.SolicitEthernet(solicitation);
  state_.resolution.Start(solicitation, state_.now);
  return Drop::kNone;
}

absl::optional<IpAddr> Delivery::Router(bool ipv6) const {
  return state_.on_link.Router(
      ipv6, [this](const IpAddr& ip) { return state_.neighbors.Find(ip).has_value(); }, state_.now);
}

void Delivery::SolicitAgain(const Solicitation& solicitation) {
  const Drop drop =
      state_.ethernet_limiter.MaySolicit(solicitation.target, solicitation.sender_mac,
                                         SolicitationLimiter::Kind::kProbeOrRetry, state_.now);
  state_.counters.Add(drop == Drop::kNone ? Event::kAsks : Event::kSuppressed);
  if (drop == Drop::kNone) sender_.SolicitEthernet(solicitation);
}

void Delivery::GiveUp(const IpAddr& target) {
  // If no prefix of the link is known, a silent target may be beyond the link.
  const bool try_router = state_.on_link.WhereIs(target, state_.now) == OnLink::Where::kUnknown;
  const absl::optional<IpAddr> router = try_router ? Router(target.is_ipv6()) : absl::nullopt;
  const absl::optional<MacAddr> mac =
      router.has_value() ? state_.neighbors.Find(*router) : absl::nullopt;
  state_.ethernet_limiter.Failed(target, state_.now);
  for (const HeldPacket& held : state_.resolution.Take(target)) {
    if (mac.has_value()) {
      state_.Send(*mac, held);
    } else {
      state_.counters.Add(Drop::kUnanswered);
    }
  }
}

}  // namespace eoib::translation
