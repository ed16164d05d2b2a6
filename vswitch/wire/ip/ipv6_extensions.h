// IPv6 extension headers of the common form: hop-by-hop options, routing, destination options (RFC
// 8200 §4). Others (fragment, authentication) have other forms.
#ifndef EOIB_VSWITCH_WIRE_IP_IPV6_EXTENSIONS_H_
#define EOIB_VSWITCH_WIRE_IP_IPV6_EXTENSIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_headers.h"

namespace eoib {

inline constexpr size_t kIpv6ExtensionUnit = 8;

constexpr bool IsIpv6Extension(uint8_t protocol) {
  return protocol == kProtocolHopByHop || protocol == kProtocolRouting ||
         protocol == kProtocolDestinationOptions;
}

// Size of the extension header at the start of `rest`; 0 if it reaches beyond the end.
size_t Ipv6ExtensionSize(absl::Span<const uint8_t> rest) noexcept;

// True if checksums behind `extension` (all of its bytes) use the addresses of the IPv6 header.
// False with segments left (RFC 8200 §8.1), with a home address option (RFC 6275 §11.3.1), and, to
// be safe, with malformed options.
bool KeepsAddresses(uint8_t protocol, absl::Span<const uint8_t> extension) noexcept;

// The value of the first option of `type` among `options`, the bytes of a header after its first
// two. Null data if there is none, or if an option before it is malformed.
absl::Span<const uint8_t> FindIpv6Option(absl::Span<const uint8_t> options, uint8_t type) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IPV6_EXTENSIONS_H_
