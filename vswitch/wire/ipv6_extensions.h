// The IPv6 extension headers that are read here: hop-by-hop options, routing, destination options (RFC 8200 §4), which have one
// form. What else may stand before a message (fragment, authentication) has others.
#ifndef EOIB_VSWITCH_WIRE_IPV6_EXTENSIONS_H_
#define EOIB_VSWITCH_WIRE_IPV6_EXTENSIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/ip_headers.h"

namespace eoib {

inline constexpr size_t kIpv6ExtensionUnit = 8;

constexpr bool IsIpv6Extension(uint8_t protocol) {
  return protocol == kProtocolHopByHop || protocol == kProtocolRouting || protocol == kProtocolDestinationOptions;
}

// Bytes of the extension header at the start of `rest`; 0 if it does not end there.
size_t Ipv6ExtensionSize(absl::Span<const uint8_t> rest) noexcept;

// Whether the pseudo-header of what follows `extension` (all of its bytes) has the addresses of the IPv6 header: it does not
// where segments are left to route (RFC 8200 §8.1), behind a home address option (RFC 6275 §11.3.1), and, for all one can know,
// behind options that cannot be read.
bool KeepsAddresses(uint8_t protocol, absl::Span<const uint8_t> extension) noexcept;

// The value of the first option of `type` among `options`, those of a header behind its first two bytes. Null data if there is
// none, or options before it cannot be read.
absl::Span<const uint8_t> FindIpv6Option(absl::Span<const uint8_t> options, uint8_t type) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IPV6_EXTENSIONS_H_
