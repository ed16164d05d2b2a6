// ArpResponder: all that a host has to do with ARP (RFC 826, RFC 5227; RFC 4391 §9.2): it answers for this host's addresses,
// asks for others', and tells the neighbour cache and Dad what others say.
//
// A reply goes to the queue pair that asked; requests, probes and announcements are broadcast. One thread; everything given to
// it stays the caller's.
#ifndef EOIB_GATEWAY_ENDPOINT_ARP_RESPONDER_H_
#define EOIB_GATEWAY_ENDPOINT_ARP_RESPONDER_H_

#include "absl/types/optional.h"
#include "gateway/endpoint/addresses.h"
#include "gateway/endpoint/dad.h"
#include "gateway/endpoint/link_sender.h"
#include "gateway/endpoint/neighbor_cache.h"
#include "vswitch/wire/arp.h"

namespace eoib::endpoint {

class ArpResponder {
 public:
  ArpResponder(LinkSender* link, const Addresses* addresses, NeighborCache* neighbors, Dad* dad)
      : link_(link), addresses_(addresses), neighbors_(neighbors), dad_(dad) {}

  // What came from the link.
  void OnArp(const IpoibArp& packet);

  // Who has `target`? Of one neighbour, or of all. False if this host has no address to ask from.
  bool Ask(Ipv4Addr target, const absl::optional<IpoibAddress>& at);
  bool Probe(Ipv4Addr address);     // RFC 5227 §2.1.1
  void Announce(Ipv4Addr address);  // §2.3

 private:
  void OnRequest(const IpoibArp& packet);
  void Reply(const IpoibArp& request);

  LinkSender* const link_;
  const Addresses* const addresses_;
  NeighborCache* const neighbors_;
  Dad* const dad_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_ARP_RESPONDER_H_
