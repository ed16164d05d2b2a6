// What a host says about link-layer addresses, as bytes: ARP requests and replies, neighbour solicitations and advertisements.
//
// The counterpart of ParseIpoibArp and ParseNeighborDiscovery, which read what others say. Never on the packet path.
#ifndef EOIB_GATEWAY_ENDPOINT_NEIGHBOR_MESSAGES_H_
#define EOIB_GATEWAY_ENDPOINT_NEIGHBOR_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/arp.h"
#include "vswitch/wire/ip_address.h"
#include "vswitch/wire/ipoib_address.h"
#include "vswitch/wire/neighbor_discovery.h"

namespace eoib::endpoint {

using Bytes = std::vector<uint8_t>;

Bytes ArpBytes(const IpoibArp& packet);

struct Solicitation {
  Ipv6Addr source;  // ::, to find out whether an address is free (RFC 4862 §5.4.2)
  Ipv6Addr destination;
  Ipv6Addr target;
  absl::optional<IpoibAddress> source_link;  // not with source :: (RFC 4861 §4.3)
  absl::Span<const uint8_t> nonce;           // 6 bytes, or 8 more for each further unit (RFC 7527 §4.1); empty: none
};
// A whole IPv6 packet.
Bytes SolicitationBytes(const Solicitation& solicitation);

struct Advertisement {
  Ipv6Addr source;
  Ipv6Addr destination;
  Ipv6Addr target;
  bool router = false;
  bool solicited = false;
  bool overrides = true;
  absl::optional<IpoibAddress> target_link;
};
Bytes AdvertisementBytes(const Advertisement& advertisement);

// The flags of a neighbour advertisement (RFC 4861 §4.4). Requires message.type to be that.
struct AdvertisementFlags {
  bool router, solicited, overrides;
};
AdvertisementFlags FlagsOf(const NdMessage& message);

// Whether an interface can be there: not at a group's address, nor at a port without a GID.
inline bool CanBeInterface(const IpoibAddress& address) { return !address.IsGroup() && !address.gid().IsZero(); }

// The first option of that type with an IPoIB address.
absl::optional<IpoibAddress> FindLinkAddress(const NdMessage& message, NdOptionType type);
// Of the nonce option; empty without.
absl::Span<const uint8_t> FindNonce(const NdMessage& message);

// The packet without its link-layer address options, its lengths and checksum right: for a kernel whose interface has
// no link-layer addresses, and which takes a message with one of 24 bytes for a broken one. Requires `message` to be a view of
// `packet`.
Bytes WithoutLinkAddresses(absl::Span<const uint8_t> packet, const NdMessage& message);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_NEIGHBOR_MESSAGES_H_
