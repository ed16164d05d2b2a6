#include "gateway/translation/delivery.h"

namespace eoib::translation {

Drop Delivery::ToNeighbor(const Packet& packet, absl::Span<const uint8_t> bytes) {
  const IpAddr& to = packet.destination;
  if (const auto mac = k_.neighbors.Find(to); mac.has_value()) {
    k_.output.ToEthernet(*mac, packet.station, packet.ethertype, bytes);
    return Drop::kNone;
  }
  // Only for alive_for: after a longer silence an Ethernet host may have the address.
  if (k_.stations.IpHeard(to) >= k_.now - k_.options.alive_for) return Drop::kSameSide;
  const OnLink::Where where = k_.on_link.WhereIs(to, k_.now);
  if (where == OnLink::Where::kBeyond) return ToRouter(packet, bytes);
  const bool try_router = where == OnLink::Where::kUnknown && k_.asks_of_ethernet.HasFailed(to, k_.now);
  return try_router && Router(to.is_ipv6()).has_value() ? ToRouter(packet, bytes) : Hold(to, packet, bytes);
}

void Delivery::Tick() {
  k_.resolver.Tick(
      k_.now, [this](const Question& question) { AskAgain(question); }, [this](const IpAddr& target) { GiveUp(target); });
}

Drop Delivery::ToRouter(const Packet& packet, absl::Span<const uint8_t> bytes) {
  const absl::optional<IpAddr> router = Router(packet.destination.is_ipv6());
  if (!router.has_value()) return Drop::kNoRoute;
  const absl::optional<MacAddr> mac = k_.neighbors.Find(*router);
  if (!mac.has_value()) return Hold(*router, packet, bytes);
  k_.output.ToEthernet(*mac, packet.station, packet.ethertype, bytes);
  return Drop::kNone;
}

Drop Delivery::Hold(const IpAddr& next_hop, const Packet& packet, absl::Span<const uint8_t> bytes) {
  if (!k_.resolver.IsWaitingFor(next_hop)) {
    if (const Drop drop = Ask(next_hop, packet); drop != Drop::kNone) return drop;
  }
  const size_t gone = k_.resolver.Hold(next_hop, {packet.ethertype, packet.station, {bytes.begin(), bytes.end()}});
  k_.counters.Add(Event::kWaited);
  for (size_t i = 0; i < gone; ++i) k_.counters.Add(Drop::kUnanswered);
  return Drop::kHeld;
}

Drop Delivery::Ask(const IpAddr& next_hop, const Packet& packet) {
  if (!next_hop.CanBeHost()) return Drop::kMalformed;
  if (k_.resolver.full()) return Drop::kHeldFull;
  const Drop drop = k_.asks_of_ethernet.MayAsk(next_hop, packet.station, Asks::Kind::kQuestion, k_.now);
  if (drop != Drop::kNone) return drop;
  // Solicit from the packet's source address only if the sending station has it: a router forwards packets of other hosts.
  const Station* const sender = k_.stations.FindByIp(packet.source);
  const bool own = sender != nullptr && sender->mac == packet.station;
  const IpAddr nobody = next_hop.is_ipv6() ? IpAddr(Ipv6Addr()) : IpAddr(Ipv4Addr());
  const Question question{next_hop, own ? packet.source : nobody, packet.station, false};
  k_.counters.Add(Event::kAsks);
  questioner_.AskEthernet(question);
  k_.resolver.Start(question, k_.now);
  return Drop::kNone;
}

absl::optional<IpAddr> Delivery::Router(bool ipv6) const {
  return k_.on_link.Router(
      ipv6, [this](const IpAddr& ip) { return k_.neighbors.Find(ip).has_value(); }, k_.now);
}

void Delivery::AskAgain(const Question& question) {
  const Drop drop = k_.asks_of_ethernet.MayAsk(question.target, question.asker, Asks::Kind::kRegardless, k_.now);
  k_.counters.Add(drop == Drop::kNone ? Event::kAsks : Event::kSuppressed);
  if (drop == Drop::kNone) questioner_.AskEthernet(question);
}

void Delivery::GiveUp(const IpAddr& target) {
  // If no prefix of the link is known, a silent target may be beyond the link.
  const bool try_router = k_.on_link.WhereIs(target, k_.now) == OnLink::Where::kUnknown;
  const absl::optional<IpAddr> router = try_router ? Router(target.is_ipv6()) : absl::nullopt;
  const absl::optional<MacAddr> mac = router.has_value() ? k_.neighbors.Find(*router) : absl::nullopt;
  k_.asks_of_ethernet.Failed(target, k_.now);
  for (const HeldPacket& held : k_.resolver.Take(target)) {
    if (mac.has_value()) {
      k_.Send(*mac, held);
    } else {
      k_.counters.Add(Drop::kUnanswered);
    }
  }
}

}  // namespace eoib::translation
