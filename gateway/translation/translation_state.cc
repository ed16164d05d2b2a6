#include "gateway/translation/translation_state.h"

#include <algorithm>
#include <utility>

namespace eoib::translation {

TranslationState::TranslationState(const Options& given, const Clock* the_clock, Sink* sink)
    : options(given),
      clock(the_clock),
      output(given.ethernet_mtu, sink, &counters),
      stations(given, &counters),
      neighbors(given, &counters, this),
      on_link(given),
      ipoib_limiter(given, the_clock->Now()),
      ethernet_limiter(given, the_clock->Now()),
      pending(given),
      resolution(given),
      liveness(given),
      groups(given, &counters, sink, the_clock->Now()),
      now(the_clock->Now()) {}

void TranslationState::Change(const Options& changed) {
  options = changed;
  now = clock->Now();
  stations.Change(changed);
  neighbors.Change(changed);
  on_link.Change(changed);
  ForgetBeyond();
  ipoib_limiter.Change(changed, now);
  ethernet_limiter.Change(changed, now);
}

// Entries that came before a prefix was learned stay: else an advertisement with an invented prefix
// would end all connections.
void TranslationState::ForgetBeyond() {
  const auto beyond = [this](const IpAddr& ip) {
    return on_link.IsConfigured(ip.is_ipv6()) && on_link.WhereIs(ip, now) == OnLink::Where::kBeyond;
  };
  neighbors.ForgetIf([&](const IpAddr& ip, MacAddr) { return beyond(ip); });
  stations.ForgetIps(beyond);
}

void TranslationState::LearnNeighbor(const IpAddr& ip, MacAddr mac, Neighbors::Claim claim) {
  if (!ip.CanBeHost() || CheckClaimedMac(mac) != Drop::kNone) return;
  if (IsBeyond(ip)) return counters.Add(Event::kIgnoredClaims);
  neighbors.Learn(ip, mac, claim, now);
  ethernet_limiter.Heard(ip);
  Release(ip, mac);
}

const Station* TranslationState::LearnStation(const IpoibAddress& address, const IpAddr& ip,
                                              Stations::Claim claim) {
  const auto taken = [this](MacAddr mac) { return mac == own_mac; };
  const uint64_t known = counters[Event::kLearnedStations];
  const bool beyond = IsBeyond(ip);
  if (beyond && claim != Stations::Claim::kProbe) counters.Add(Event::kIgnoredClaims);
  const Station* const station = ip.CanBeHost() && !beyond
                                     ? stations.HearClaim(address, ip, claim, now, taken)
                                     : stations.Hear(address, now, taken);
  // The active gateway sends frames from this MAC address. A gateway that stands by may have taken
  // it for an Ethernet host's before it heard the station.
  if (counters[Event::kLearnedStations] != known) neighbors.ForgetMac(station->mac);
  // The station is alive, so each of its addresses is.
  for (const IpAddr& its : station->ips) ipoib_limiter.Heard(its);
  return station;
}

Drop TranslationState::CheckStationAddress(const IpoibAddress& address) const {
  if (address == output.own()) return Drop::kLoop;
  if (address.IsGroup() || address.gid().IsZero()) return Drop::kMalformed;
  const bool other =
      std::find(other_gateways_.begin(), other_gateways_.end(), address) != other_gateways_.end();
  return other ? Drop::kOtherGateway : Drop::kNone;
}

// The queue pairs may differ: only the port is proved, by the GRH.
Drop TranslationState::CheckClaimedSender(const IpoibAddress& claimed,
                                          const absl::optional<IpoibAddress>& source) const {
  const Drop drop = CheckStationAddress(claimed);
  const bool forged = source.has_value() && source->gid() != claimed.gid();
  return drop == Drop::kNone && forged ? Drop::kForgedSender : drop;
}

Drop TranslationState::CheckEthernetSource(MacAddr mac) const {
  if (mac.IsGroup() || mac.IsZero()) return Drop::kMalformed;
  return mac == own_mac || stations.FindByMac(mac) != nullptr ? Drop::kLoop : Drop::kNone;
}

Drop TranslationState::CheckClaimedMac(MacAddr mac) const {
  return mac.IsGroup() && !mac.IsBroadcast() ? Drop::kNone : CheckEthernetSource(mac);
}

// At the limit, which the tables of hosts cannot reach, addresses in neither table go: an invented
// router displaces no host.
void TranslationState::NoteRouter(const Ipv6Addr& ip, bool router) {
  if (!router || !IpAddr(ip).CanBeHost()) {
    router_ips_.erase(ip);
    return;
  }
  if (router_ips_.size() >= kSpareRouterIps + 2 * (neighbors.size() + stations.ips())) {
    absl::erase_if(router_ips_, [this](const Ipv6Addr& known) {
      return !neighbors.Find(known).has_value() && stations.FindByIp(known) == nullptr;
    });
  }
  router_ips_.insert(ip);
}

Drop TranslationState::MaySolicitIpoib(const IpAddr& target, MacAddr requester, bool probe) {
  return MaySolicit(target, requester, probe, stations.IpHeard(target), neighbors.Heard(target),
                    &ipoib_limiter);
}

Drop TranslationState::MaySolicitEthernet(const IpAddr& target, MacAddr requester, bool probe) {
  return MaySolicit(target, requester, probe, neighbors.Heard(target), stations.IpHeard(target),
                    &ethernet_limiter);
}

// `there` and `here`: when the target was last heard on the other side, and on the requester's own.
Drop TranslationState::MaySolicit(const IpAddr& target, MacAddr requester, bool probe,
                                  absl::Time there, absl::Time here,
                                  SolicitationLimiter* limits) const {
  if (there >= now - options.alive_for) return Drop::kNone;
  if (!probe && here >= now - options.local_for) return Drop::kLocalTarget;
  using Kind = SolicitationLimiter::Kind;
  const Kind kind = there == absl::InfinitePast() ? Kind::kUnknownTarget : Kind::kKnownTarget;
  return limits->MaySolicit(target, requester, probe ? Kind::kProbeOrRetry : kind, now);
}

void TranslationState::SetOtherGateways(std::vector<IpoibAddress> gateways) {
  other_gateways_ = std::move(gateways);
  for (const IpoibAddress& gateway : other_gateways_) stations.Forget(gateway);
}

void TranslationState::CopyFrom(const TranslationState& other) {
  own_mac = other.own_mac;
  output.SetEthernetMtu(other.output.ethernet_mtu());
  on_link.CopyFrom(other.on_link);
  ipoib_limiter.CopyFrom(other.ipoib_limiter);
  ethernet_limiter.CopyFrom(other.ethernet_limiter);
  pending.CopyFrom(other.pending);
  resolution.CopyFrom(other.resolution);
  groups.CopyFrom(other.groups);
  other_gateways_ = other.other_gateways_;
  router_ips_ = other.router_ips_;
}

void TranslationState::OnNeighbor(const IpAddr& ip) {
  if (ip.is_ipv6()) groups.AddNeighbor(ip.ipv6(), now);
}

void TranslationState::OnNeighborGone(const IpAddr& ip) {
  if (ip.is_ipv6()) groups.RemoveNeighbor(ip.ipv6());
}

void TranslationState::Release(const IpAddr& ip, MacAddr mac) {
  if (!resolution.IsWaitingFor(ip)) return;
  for (const HeldPacket& held : resolution.Take(ip)) Send(mac, held);
}

void TranslationState::Send(MacAddr mac, const HeldPacket& held) {
  counters.Add(Event::kReleased);
  output.ToEthernet(mac, held.source, held.ethertype, held.bytes);
}

}  // namespace eoib::translation
