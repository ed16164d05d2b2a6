// ArpResponder: the ARP of a host (RFC 826, RFC 5227; RFC 4391 §9.2). It answers requests for this
// host's addresses, sends requests, probes and announcements, and passes received ARP to the
// neighbour cache and Dad.
//
// A reply is unicast to the queue pair that asked; probes, announcements and requests are
// broadcast, except a request that revalidates one neighbour. One thread; its arguments outlive it.
#ifndef EOIB_GATEWAY_HOST_ARP_RESPONDER_H_
#define EOIB_GATEWAY_HOST_ARP_RESPONDER_H_

#include "absl/types/optional.h"
#include "gateway/host/addresses.h"
#include "gateway/host/dad.h"
#include "gateway/host/link_sender.h"
#include "gateway/host/neighbor_cache.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib::endpoint {

class ArpResponder {
 public:
  ArpResponder(LinkSender* link, const Addresses* addresses, NeighborCache* neighbors, Dad* dad)
      : link_(link), addresses_(addresses), neighbors_(neighbors), dad_(dad) {}

  void OnArp(const IpoibArp& packet);

  // Sends a request for `target`, to one neighbour or by broadcast. False if this host has no
  // source address for it.
  bool Request(Ipv4Addr target, const absl::optional<IpoibAddress>& at);
  // RFC 5227 §2.1.1, §2.3.
  bool Probe(Ipv4Addr address) { return SendRequest(Ipv4Addr(), address, absl::nullopt); }
  void Announce(Ipv4Addr address) { SendRequest(address, address, absl::nullopt); }

 private:
  void OnRequest(const IpoibArp& packet);
  bool SendRequest(Ipv4Addr source, Ipv4Addr target, const absl::optional<IpoibAddress>& at);

  LinkSender* const link_;
  const Addresses* const addresses_;
  NeighborCache* const neighbors_;
  Dad* const dad_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_ARP_RESPONDER_H_
