// Encodes a host's ARP packets, neighbour solicitations and neighbour advertisements.
//
// ParseIpoibArp and ParseNeighborDiscovery are the decoders. Not for the packet path.
#ifndef EOIB_GATEWAY_HOST_NEIGHBOR_MESSAGES_H_
#define EOIB_GATEWAY_HOST_NEIGHBOR_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::endpoint {

using Bytes = std::vector<uint8_t>;

Bytes ArpBytes(const IpoibArp& packet);

struct Solicitation {
  Ipv6Addr source;  // :: in duplicate address detection (RFC 4862 §5.4.2)
  Ipv6Addr destination;
  Ipv6Addr target;
  absl::optional<IpoibAddress> source_link;  // not with source :: (RFC 4861 §4.3)
  // 6 bytes, or 8 more for each further unit (RFC 7527 §4.1); empty: none.
  absl::Span<const uint8_t> nonce;
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

// True if the address can be an interface's: it is not a group's, and its GID is not zero.
inline bool CanBeInterface(const IpoibAddress& address) {
  return !address.IsGroup() && !address.gid().IsZero();
}

// The first option of that type with an IPoIB address.
absl::optional<IpoibAddress> FindLinkAddress(const NdMessage& message, NdOptionType type);

// A copy of the packet without link-layer address options, with length and checksum corrected. The
// TUN has no link-layer addresses, and the kernel would reject an option of 24 bytes. Requires
// `message` to be a view of `packet`.
Bytes WithoutLinkAddresses(absl::Span<const uint8_t> packet, const NdMessage& message);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_NEIGHBOR_MESSAGES_H_
