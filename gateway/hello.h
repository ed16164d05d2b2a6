// The message of gateways to each other: a UDP datagram over IPv6 on the IPoIB link, from the gateway's link-local address to a
// group of link-local scope, so that every capture shows it as the ordinary packet that it is. No host listens there.
//
// It goes to the group that RFC 4391 §4 maps its address to, which gateways alone join, and to the broadcast group where that
// one does not do: see hello_protocol.h.
//
//     magic "eoib" 4 | version 1 | state 1 | priority 1 | 0 | VES P_Key 2 | VLAN 2 | address 20
//
// State: 1 of a candidate, 2 of the active one, 3 of one without a claim.
//
// The pair says which gateways concern each other: several VESes, or VLANs, may share an IPoIB link. See README.md.
#ifndef EOIB_GATEWAY_HELLO_H_
#define EOIB_GATEWAY_HELLO_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "gateway/election.h"
#include "vswitch/wire/ip_address.h"

namespace eoib::gateway {

// The Ethernet side of a gateway.
struct Pair {
  PKey ves;  // in its full-member form
  Vid vlan;

  friend constexpr bool operator==(const Pair&, const Pair&) = default;
};

// ff12::e01b:6777: transient, of the link. The destination in the packet.
Ipv6Addr HelloGroup();
inline constexpr uint16_t kHelloPort = 0xe01b;

// The whole packet, from the IPv6 header on.
std::vector<uint8_t> EncodeHello(const Election::Hello& hello, const Pair& pair);
// Whether `packet` is one of gateways among themselves, of whichever pair; hosts of neither side are to see it.
bool IsHello(absl::Span<const uint8_t> packet);
// Nothing unless it is, to the last bit, what a gateway of that pair says: from the link (hop limit 255), with the right
// checksum.
absl::optional<Election::Hello> DecodeHello(absl::Span<const uint8_t> packet, const Pair& pair);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_HELLO_H_
