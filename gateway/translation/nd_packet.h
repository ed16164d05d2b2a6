// Rewrites neighbour discovery messages of one link for the other, and builds the gateway's own
// ones.
//
// A rewrite changes link-layer address options (8 bytes on Ethernet, 24 on IPoIB: RFC 4391 §9.3),
// the packet's length and checksum, and a router's MTU option. Everything else stays, including
// unknown options and nonces (RFC 7527 §4.1). These are pure functions; the caller maps the
// addresses.
#ifndef EOIB_GATEWAY_TRANSLATION_ND_PACKET_H_
#define EOIB_GATEWAY_TRANSLATION_ND_PACKET_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/translation/counters.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::translation {

// The two links' MTUs: the largest IP packet, in bytes.
struct NdMtus {
  uint32_t from = 0;
  uint32_t to = 0;
};

// Writes to *out the form of `packet` on the other link. `message` is the parsed packet. `to_ipoib`
// and `to_ethernet` map an address; if they return nothing, the option is left out. kNone, or the
// reason to drop the message: kSend; kBadLinkOption (an option has the wrong length for its link);
// kTooBig (longer than mtus.to, although a redirect's copy of a packet was cut as RFC 4861 §8.3
// allows).
//
// A router advertisement's MTU becomes the smallest of its own and both links'. An MTU option is
// added if it has none and the link that it comes from has the larger MTU (RFC 4861 §4.6.4: links
// of one subnet that differ).
Drop TranslateToIpoib(absl::Span<const uint8_t> packet, const NdMessage& message,
                      const NdMtus& mtus,
                      absl::FunctionRef<absl::optional<IpoibAddress>(MacAddr)> to_ipoib,
                      std::vector<uint8_t>* out);
Drop TranslateToEthernet(
    absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
    absl::FunctionRef<absl::optional<MacAddr>(const IpoibAddress&)> to_ethernet,
    std::vector<uint8_t>* out);

// Writes to *out a solicitation for `target`. It has a source link-layer address option unless
// `source` is :: (RFC 4861 §4.3). It goes to the target's solicited-node group or, if `direct`, to
// the target.
template <typename LinkAddress>
void BuildSolicitation(const Ipv6Addr& source, const LinkAddress& link, const Ipv6Addr& target,
                       bool direct, std::vector<uint8_t>* out) {
  StartNeighborMessage(NdType::kNeighborSolicitation, 0, source,
                       direct ? target : SolicitedNodeGroup(target), target, out);
  if (!source.IsUnspecified()) AppendLinkAddressOption(NdOptionType::kSourceLinkAddress, link, out);
  FinishNeighborMessage(out);
}
// Writes to *out an unsolicited advertisement to all nodes, with the override flag (RFC 4861
// §7.2.6).
template <typename LinkAddress>
void BuildAdvertisement(const Ipv6Addr& target, bool router, const LinkAddress& link,
                        std::vector<uint8_t>* out) {
  const uint8_t flags = kNaOverride | (router ? kNaRouter : 0);
  StartNeighborMessage(NdType::kNeighborAdvertisement, flags, target, kAllNodes, target, out);
  AppendLinkAddressOption(NdOptionType::kTargetLinkAddress, link, out);
  FinishNeighborMessage(out);
}

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ND_PACKET_H_
