// The codec of the hello by which gateways elect the active one: a UDP datagram over IPv6 on the IPoIB link. README.md, "Which
// one works", has the format.
#ifndef EOIB_GATEWAY_HELLO_H_
#define EOIB_GATEWAY_HELLO_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/election.h"
#include "vswitch/base/address.h"

namespace eoib::gateway {

// The Ethernet side of a gateway.
struct Pair {
  PKey ves;  // in its full-member form
  Vid vlan;

  friend constexpr bool operator==(const Pair&, const Pair&) = default;
};

inline constexpr uint16_t kHelloPort = 0xe01b;

// The whole packet, from the IPv6 header on.
std::vector<uint8_t> EncodeHello(const Election::Hello& hello, const Pair& pair);
// True if `packet` is a hello of any pair. Such a packet must not reach a host of either side.
bool IsHello(absl::Span<const uint8_t> packet);
// The hello, if `packet` equals bit for bit what a gateway of that pair sends: so the hop limit is 255 and the checksum right.
absl::optional<Election::Hello> DecodeHello(absl::Span<const uint8_t> packet, const Pair& pair);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_HELLO_H_
