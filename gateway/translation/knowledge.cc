#include "gateway/translation/knowledge.h"

#include <algorithm>
#include <utility>

namespace eoib::translation {

Knowledge::Knowledge(const Options& given, const Clock* the_clock, Sink* sink)
    : options(given),
      clock(the_clock),
      output(given.ethernet_mtu, sink, &counters),
      stations(given, &counters),
      neighbors(given, &counters, this),
      on_link(given),
      asks_of_ipoib(given, the_clock->Now()),
      asks_of_ethernet(given, the_clock->Now()),
      pending(given),
      resolver(given),
      liveness(given),
      groups(given, &counters, sink, the_clock->Now()),
      now(the_clock->Now()) {}

void Knowledge::LearnNeighbor(const IpAddr& ip, MacAddr mac, Neighbors::Claim claim) {
  if (!ip.CanBeHost() || CheckEthernetSource(mac) != Drop::kNone) return;
  neighbors.Learn(ip, mac, claim, now);
  asks_of_ethernet.Heard(ip);
  Release(ip, mac);
}

const Station* Knowledge::LearnStation(const IpoibAddress& address, const IpAddr& ip, Stations::Claim claim) {
  const auto taken = [this](MacAddr mac) { return mac == own_mac; };
  const uint64_t known = counters[Event::kLearnedStations];
  const Station* const station =
      ip.CanBeHost() ? stations.HearClaim(address, ip, claim, now, taken) : stations.Hear(address, now, taken);
  // The active gateway sends frames from this MAC address. A gateway that stands by may have taken it for an Ethernet host's
  // before it heard the station.
  if (counters[Event::kLearnedStations] != known) neighbors.ForgetMac(station->mac);
  for (const IpAddr& its : station->ips) asks_of_ipoib.Heard(its);  // the station is alive, so each of its addresses is
  return station;
}

Drop Knowledge::CheckStationAddress(const IpoibAddress& address) const {
  if (address == output.own()) return Drop::kLoop;
  if (address.IsGroup() || address.gid().IsZero()) return Drop::kMalformed;
  const bool other = std::find(other_gateways_.begin(), other_gateways_.end(), address) != other_gateways_.end();
  return other ? Drop::kOtherGateway : Drop::kNone;
}

Drop Knowledge::CheckEthernetSource(MacAddr mac) const {
  if (mac.IsGroup() || mac.IsZero()) return Drop::kMalformed;
  return mac == own_mac || stations.FindByMac(mac) != nullptr ? Drop::kLoop : Drop::kNone;
}

void Knowledge::NoteRouter(const Ipv6Addr& ip, bool router) {
  if (!router) {
    router_ips_.erase(ip);
  } else if (router_ips_.size() < kMaxRouterIps && IpAddr(ip).CanBeHost()) {
    router_ips_.insert(ip);
  }
}

Drop Knowledge::MaySolicitIpoib(const IpAddr& target, MacAddr asker, bool probe) {
  return MaySolicit(target, asker, probe, stations.IpHeard(target), neighbors.Heard(target), &asks_of_ipoib);
}

Drop Knowledge::MaySolicitEthernet(const IpAddr& target, MacAddr asker, bool probe) {
  return MaySolicit(target, asker, probe, neighbors.Heard(target), stations.IpHeard(target), &asks_of_ethernet);
}

// `there` and `here`: when the target was last heard on the other side, and on the asker's own.
Drop Knowledge::MaySolicit(const IpAddr& target, MacAddr asker, bool probe, absl::Time there, absl::Time here,
                           Asks* limits) const {
  if (there >= now - options.alive_for) return Drop::kNone;
  if (!probe && here >= now - options.local_for) return Drop::kLocalTarget;
  return limits->MayAsk(target, asker, KindOf(probe, there), now);
}

void Knowledge::SetOtherGateways(std::vector<IpoibAddress> gateways) {
  other_gateways_ = std::move(gateways);
  for (const IpoibAddress& gateway : other_gateways_) stations.Forget(gateway);
}

void Knowledge::Imitate(const Knowledge& other) {
  own_mac = other.own_mac;
  output.SetEthernetMtu(other.output.ethernet_mtu());
  on_link.Imitate(other.on_link);
  asks_of_ipoib.Imitate(other.asks_of_ipoib);
  asks_of_ethernet.Imitate(other.asks_of_ethernet);
  pending.Imitate(other.pending);
  resolver.Imitate(other.resolver);
  groups.Imitate(other.groups);
  other_gateways_ = other.other_gateways_;
  router_ips_ = other.router_ips_;
}

void Knowledge::OnNeighbor(const IpAddr& ip) {
  if (ip.is_ipv6()) groups.AddNeighbor(ip.ipv6(), now);
}

void Knowledge::OnNeighborGone(const IpAddr& ip) {
  if (ip.is_ipv6()) groups.RemoveNeighbor(ip.ipv6());
}

void Knowledge::Release(const IpAddr& ip, MacAddr mac) {
  if (!resolver.IsWaitingFor(ip)) return;
  for (const HeldPacket& held : resolver.Take(ip)) Send(mac, held);
}

void Knowledge::Send(MacAddr mac, const HeldPacket& held) {
  counters.Add(Event::kReleased);
  output.ToEthernet(mac, held.source, held.ethertype, held.bytes);
}

}  // namespace eoib::translation
