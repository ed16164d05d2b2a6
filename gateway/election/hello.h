// The codec of the hello by which gateways elect the active one: a UDP datagram over IPv6 on the
// IPoIB link. README.md, "Which one works", has the format.
#ifndef EOIB_GATEWAY_ELECTION_HELLO_H_
#define EOIB_GATEWAY_ELECTION_HELLO_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/election/election.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::gateway {

// The Ethernet side of a gateway.
struct Pair {
  PKey ves;  // in its full-member form
  Vid vlan;

  friend constexpr bool operator==(const Pair&, const Pair&) = default;
};

// ff12::e01b:6777, a transient address of link-local scope: only gateways send there.
inline constexpr Ipv6Addr kHelloGroup(std::array<uint8_t, 16>{0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                              0, 0xe0, 0x1b, 0x67, 0x77});
inline constexpr uint16_t kHelloPort = 0xe01b;

// The whole packet, from the IPv6 header on.
std::vector<uint8_t> EncodeHello(const Election::Hello& hello, const Pair& pair);
// True if `packet` is a hello of any pair. Such a packet must not reach a host of either side.
bool IsHello(absl::Span<const uint8_t> packet);
// The hello, if `packet` equals bit for bit what a gateway of that pair sends: so the hop limit is
// 255 and the checksum right.
absl::optional<Election::Hello> DecodeHello(absl::Span<const uint8_t> packet, const Pair& pair);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_HELLO_H_
