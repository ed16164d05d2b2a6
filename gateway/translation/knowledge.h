// Knowledge: all that the gateway knows of the hosts of both sides, and the one place where it learns.
//
// The translations of ARP, of neighbour discovery and of other packets share it; each learns what its packets say before it
// decides what becomes of them, so that a gateway that stands by knows as much as the one that works. What is learned has
// consequences (packets that waited go on, questions end), and they are drawn here.
//
// Owned by the Translator, on its thread. Members are open to the translations: this is their common memory.
#ifndef EOIB_GATEWAY_TRANSLATION_KNOWLEDGE_H_
#define EOIB_GATEWAY_TRANSLATION_KNOWLEDGE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "fdb/address.h"
#include "fdb/clock.h"
#include "gateway/translation/asks.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/groups.h"
#include "gateway/translation/liveness.h"
#include "gateway/translation/neighbors.h"
#include "gateway/translation/on_link.h"
#include "gateway/translation/options.h"
#include "gateway/translation/output.h"
#include "gateway/translation/pending_asks.h"
#include "gateway/translation/resolver.h"
#include "gateway/translation/sink.h"
#include "gateway/translation/stations.h"

namespace eoib::translation {

class Knowledge final : private Neighbors::Observer {
 public:
  Knowledge(const Options& options, const Clock* clock, Sink* sink);

  // `ip` is an Ethernet host's at `mac`, if both can be.
  void LearnNeighbor(const IpAddr& ip, MacAddr mac, Neighbors::Claim claim);
  // An IPoIB host is at `address`, and claims `ip` if that CanBeHost(). Requires IsStationAddress(address).
  const Station* LearnStation(const IpoibAddress& address, const IpAddr& ip, Stations::Claim claim);
  // Whether a station can be at an address; if not, why its packet ends: a loop, another gateway, nobody's.
  Drop CheckStationAddress(const IpoibAddress& address) const;
  // Whether a frame or a claim can come from `mac`: kNone, kMalformed or kLoop.
  Drop CheckEthernetSource(MacAddr mac) const;

  // What a router advertisement or the flag of a neighbour advertisement says: the gateway has to repeat it in its own.
  void NoteRouter(const Ipv6Addr& ip, bool router);
  bool IsRouter(const IpAddr& ip) const { return ip.is_ipv6() && router_ips_.contains(ip.ipv6()); }

  // Other gateways to this link, whose packets say nothing about where hosts are.
  void SetOtherGateways(std::vector<IpoibAddress> gateways);

  // Sends a packet to the Ethernet host for which it waited.
  void Send(MacAddr mac, const HeldPacket& held);

  // See Translator. Requires the same stations, neighbors and link.
  void Imitate(const Knowledge& other);

  const Options options;
  const Clock* const clock;
  Counters counters;
  Output output;
  Stations stations;
  Neighbors neighbors;
  OnLink on_link;
  Asks asks_of_ipoib;
  Asks asks_of_ethernet;
  PendingAsks pending;
  Resolver resolver;
  Liveness liveness;
  Groups groups;
  absl::Time now;   // of what is being handled
  MacAddr own_mac;  // of the gateway's own frames, which are few; see GatewayMac

 private:
  void OnNeighbor(const IpAddr& ip) override;
  void OnNeighborGone(const IpAddr& ip) override;
  void Release(const IpAddr& ip, MacAddr mac);

  static constexpr size_t kMaxRouterIps = 1024;

  std::vector<IpoibAddress> other_gateways_;
  absl::flat_hash_set<Ipv6Addr> router_ips_;  // of hosts of either side
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_KNOWLEDGE_H_
