// NdResponder: the address resolution of IPv6 neighbour discovery (RFC 4861 §7.2; RFC 4391 §9.3).
// It answers solicitations for this host's addresses, sends solicitations and advertisements, and
// passes received ones to the neighbour cache and Dad.
//
// The kernel handles routers: this class learns link-layer addresses from router solicitations,
// router advertisements and redirects, and the messages then go to the TUN without these (see
// WithoutLinkAddresses). One thread; its arguments outlive it.
#ifndef EOIB_GATEWAY_HOST_ND_RESPONDER_H_
#define EOIB_GATEWAY_HOST_ND_RESPONDER_H_

#include "absl/types/optional.h"
#include "gateway/host/addresses.h"
#include "gateway/host/dad.h"
#include "gateway/host/link_sender.h"
#include "gateway/host/memberships.h"
#include "gateway/host/neighbor_cache.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::endpoint {

class NdResponder {
 public:
  enum class Outcome : uint8_t {
    kDone,
    kInvalid,    // fails the checks of RFC 4861 §7.1, §6.1, §8.1: drop it
    kForKernel,  // pass it to the TUN, without link-layer addresses
  };

  NdResponder(LinkSender* link, const Addresses* addresses, const Memberships* memberships,
              NeighborCache* neighbors, Dad* dad)
      : link_(link),
        addresses_(addresses),
        memberships_(memberships),
        neighbors_(neighbors),
        dad_(dad) {}

  // Handles a message from the link. `from` is its link-layer source, if known.
  Outcome OnMessage(const NdMessage& message, const absl::optional<IpoibAddress>& from);

  // Solicits `target`, by unicast to `at` or by multicast. False if this host has no source address
  // for it.
  bool Solicit(const Ipv6Addr& target, const absl::optional<IpoibAddress>& at);
  bool Probe(const Ipv6Addr& address, const DadNonce& nonce);  // RFC 4862 §5.4.2, RFC 7527 §4.1
  void Announce(const Ipv6Addr& address);                      // RFC 4861 §7.2.6
  // Solicited advertisements that the neighbour cache delivers.
  uint64_t answers() const { return answers_; }

 private:
  Outcome OnSolicitation(const NdMessage& message, const absl::optional<IpoibAddress>& from);
  Outcome OnDadSolicitation(const NdMessage& message, const absl::optional<IpoibAddress>& from);
  Outcome OnAdvertisement(const NdMessage& message, const absl::optional<IpoibAddress>& from);
  Outcome OnRouterMessage(const NdMessage& message);
  Bytes AnswerTo(const NdMessage& solicitation, const Ipv6Addr& destination) const;
  bool IsRouter() const;
  void Learn(const Ipv6Addr& ip, const absl::optional<IpoibAddress>& address);

  LinkSender* const link_;
  const Addresses* const addresses_;
  const Memberships* const memberships_;
  NeighborCache* const neighbors_;
  Dad* const dad_;
  uint64_t answers_ = 0;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_ND_RESPONDER_H_
