// Neighbour discovery across the gateway: a message of one link becomes that of the other, and the gateway's own messages.
//
// What changes is what is longer or shorter there: link-layer address options (8 bytes on Ethernet, 24 on IPoIB: RFC 4391
// §9.3), with them the length of the packet and its checksum; and what a router says of the MTU. All else, options of unknown
// type and nonces (RFC 7527 §4.1) too, is as it was. Pure functions: what addresses become is the caller's to say.
#ifndef EOIB_GATEWAY_TRANSLATION_ND_PACKET_H_
#define EOIB_GATEWAY_TRANSLATION_ND_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "gateway/translation/counters.h"
#include "vswitch/wire/ip_address.h"
#include "vswitch/wire/ipoib_address.h"
#include "vswitch/wire/neighbor_discovery.h"

namespace eoib::translation {

inline constexpr size_t kIpv6HeaderSize = 40;
inline constexpr uint8_t kNaRouter = 0x80;  // RFC 4861 §4.4
inline constexpr uint8_t kNaSolicited = 0x40;
inline constexpr uint8_t kNaOverride = 0x20;

// The flags of a neighbour advertisement.
inline uint8_t AdvertisementFlags(const NdMessage& advertisement) { return advertisement.message[4]; }

// The two links' MTUs, of an IP packet.
struct NdMtus {
  uint32_t from = 0;
  uint32_t to = 0;
};

// Writes to *out, whose room is used again, what `packet` is on the other link. `message` is the packet's, read and good.
// `to_ethernet` and `to_ipoib` say what an address becomes; nothing leaves the option out. kNone, or why the message does not
// cross: kSend; kBadLinkOption (an option of another length than its link's); kTooBig (above mtus.to, though a redirect's copy
// of a packet was cut: RFC 4861 §8.3 has it so).
//
// In a router advertisement the MTU becomes the smaller of its own and both links'; where the link it comes from has the larger
// one, and no option says so, one is added (RFC 4861 §4.6.4: links of one subnet that differ).
Drop TranslateToIpoib(absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
                      absl::FunctionRef<absl::optional<IpoibAddress>(const NdOption&, MacAddr)> to_ipoib,
                      std::vector<uint8_t>* out);
Drop TranslateToEthernet(absl::Span<const uint8_t> packet, const NdMessage& message, const NdMtus& mtus,
                         absl::FunctionRef<absl::optional<MacAddr>(const NdOption&, const IpoibAddress&)> to_ethernet,
                         std::vector<uint8_t>* out);

// The first source or target link-layer address option's address; nothing if there is none of that link.
absl::optional<MacAddr> EthernetAddressIn(const NdMessage& message, NdOptionType type);
absl::optional<IpoibAddress> IpoibAddressIn(const NdMessage& message, NdOptionType type);

// Writes to *out a solicitation for `target`: with `source` an option with the sender's link-layer address, from :: none (RFC
// 4861 §4.3). To the target's solicited-node group or, if `direct`, to the target.
template <typename LinkAddress>
void BuildSolicitation(const Ipv6Addr& source, const LinkAddress& link, const Ipv6Addr& target, bool direct,
                       std::vector<uint8_t>* out);
// An advertisement to all nodes that nobody asked for, with the override flag (RFC 4861 §7.2.6).
template <typename LinkAddress>
void BuildAdvertisement(const Ipv6Addr& target, bool router, const LinkAddress& link, std::vector<uint8_t>* out);

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ND_PACKET_H_
