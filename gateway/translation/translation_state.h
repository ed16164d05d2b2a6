// TranslationState: what the translations of ARP, of neighbour discovery and of other packets
// share: the tables of both sides' hosts, limits, counters and the output. Learn functions also
// release held packets and end back-offs.
//
// Owned by the Translator, on its thread. The members are public to the translations.
#ifndef EOIB_GATEWAY_TRANSLATION_TRANSLATION_STATE_H_
#define EOIB_GATEWAY_TRANSLATION_TRANSLATION_STATE_H_

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "gateway/translation/address_resolution.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/groups.h"
#include "gateway/translation/liveness.h"
#include "gateway/translation/neighbors.h"
#include "gateway/translation/on_link.h"
#include "gateway/translation/options.h"
#include "gateway/translation/output.h"
#include "gateway/translation/pending_requests.h"
#include "gateway/translation/sink.h"
#include "gateway/translation/solicitation_limiter.h"
#include "gateway/translation/stations.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"

namespace eoib::translation {

class TranslationState final : private Neighbors::Observer {
 public:
  TranslationState(const Options& options, const Clock* clock, Sink* sink);
  // See Translator.
  void Change(const Options& changed);

  // Forgets the hosts' addresses beyond the configured prefixes. Requires that `now` is set.
  void ForgetBeyond();

  // An Ethernet host at `mac` has `ip`. Ignored if one of them cannot be a host's, or if `ip` is
  // beyond the link: a claim of such an address would take its traffic from the router.
  void LearnNeighbor(const IpAddr& ip, MacAddr mac, Neighbors::Claim claim);
  // An IPoIB host is at `address`, and claims `ip` if that CanBeHost() and is not beyond the link.
  // Requires CheckStationAddress(address) == kNone.
  const Station* LearnStation(const IpoibAddress& address, const IpAddr& ip, Stations::Claim claim);
  // kNone if a station can have the address; else why to drop its packet: kLoop, kMalformed or
  // kOtherGateway.
  Drop CheckStationAddress(const IpoibAddress& address) const;
  // The same for the address in ARP or neighbour discovery of the datagram's `source`.
  // kForgedSender if they are of different ports.
  Drop CheckClaimedSender(const IpoibAddress& claimed,
                          const absl::optional<IpoibAddress>& source) const;
  // kNone if an Ethernet host can send from the MAC address; else kMalformed or kLoop.
  Drop CheckEthernetSource(MacAddr mac) const;
  // kNone if an Ethernet host can claim the MAC address in ARP or neighbour discovery: one to send
  // from, or a group's (README.md, "Clusters").
  Drop CheckClaimedMac(MacAddr mac) const;

  // Notes whether `ip` is a router, from a router advertisement or the R flag of a neighbour
  // advertisement. The gateway's own advertisements repeat the flag.
  void NoteRouter(const Ipv6Addr& ip, bool router);
  bool IsRouter(const IpAddr& ip) const { return ip.is_ipv6() && router_ips_.contains(ip.ipv6()); }

  // Whether a solicitation of `requester` for `target` may cross to the side that it names; else
  // the reason to drop it. `probe`: the requester wants the address for itself.
  Drop MaySolicitIpoib(const IpAddr& target, MacAddr requester, bool probe);
  Drop MaySolicitEthernet(const IpAddr& target, MacAddr requester, bool probe);

  // Sets the addresses of other gateways to this link. No host is learned from their packets.
  void SetOtherGateways(std::vector<IpoibAddress> gateways);

  // Sends a packet to the Ethernet host for which it waited.
  void Send(MacAddr mac, const HeldPacket& held);

  // See Translator. Requires the same stations, neighbors and link.
  void CopyFrom(const TranslationState& other);

  Options options;
  const Clock* const clock;
  Counters counters;
  Output output;
  Stations stations;
  Neighbors neighbors;
  OnLink on_link;
  SolicitationLimiter ipoib_limiter;
  SolicitationLimiter ethernet_limiter;
  PendingRequests pending;
  AddressResolution resolution;
  Liveness liveness;
  Groups groups;
  absl::Time now;   // when the current call into the Translator began
  MacAddr own_mac;  // the source of the gateway's own frames, such as queries; see GatewayMac

 private:
  void OnNeighbor(const IpAddr& ip) override;
  void OnNeighborGone(const IpAddr& ip) override;
  void Release(const IpAddr& ip, MacAddr mac);
  bool IsBeyond(const IpAddr& ip) const {
    return on_link.WhereIs(ip, now) == OnLink::Where::kBeyond;
  }
  Drop MaySolicit(const IpAddr& target, MacAddr requester, bool probe, absl::Time there,
                  absl::Time here, SolicitationLimiter* limits) const;

  static constexpr size_t kSpareRouterIps = 1024;

  std::vector<IpoibAddress> other_gateways_;
  // Of hosts of either side, and of some that are in neither table.
  absl::flat_hash_set<Ipv6Addr> router_ips_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_TRANSLATION_STATE_H_
