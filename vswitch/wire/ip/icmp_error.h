// ICMP errors that a forwarding node, or a host's own link layer, sends to the sender of a packet:
// RFC 792, RFC 1191; RFC 4443.
//
// The caller decides when to report, and limits the rate as RFC 1812 §4.3.2.8 and RFC 4443 §2.4(f)
// ask. These functions refuse errors that the packet itself forbids. The caller must refuse those
// that the frame forbids: no error about a packet that arrived as link-layer broadcast or multicast
// (RFC 1122 §3.2.2, RFC 4443 §2.4(e.4)), except "packet too big".
#ifndef EOIB_VSWITCH_WIRE_IP_ICMP_ERROR_H_
#define EOIB_VSWITCH_WIRE_IP_ICMP_ERROR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib {

// Room for any error: at most 1,280 bytes in ICMPv6 (RFC 4443 §2.4(c)), 576 in ICMP (RFC 1812
// §4.3.2.3).
using IcmpErrorBuffer = std::array<uint8_t, kMinIpv6Mtu>;

// The source addresses of the errors of a node without an address of its own. Absent: the
// destination of the packet that the error is about.
struct IcmpSources {
  absl::optional<Ipv4Addr> ipv4;
  absl::optional<Ipv6Addr> ipv6;

  IcmpSources() = default;
  // The last address of each family counts.
  explicit IcmpSources(absl::Span<const IpAddr> addresses) {
    for (const IpAddr& address : addresses) {
      if (address.is_ipv6()) {
        ipv6 = address.ipv6();
      } else {
        ipv4 = address.ipv4();
      }
    }
  }
  friend bool operator==(const IcmpSources&, const IcmpSources&) = default;
};

// Each function writes a whole IP packet from `source`, an address of the reporting node, to the
// sender of `packet`, with as much of `packet` as the RFCs allow. It returns the bytes written to
// *out, or none if there must be no error: wire_format.md
// ("IP packets") has the rules. Only the caller knows a subnet's broadcast address.

// Type 3 code 4 with the next-hop MTU of RFC 1191 §4. Also for packets without "don't fragment":
// the caller decides not to fragment.
absl::Span<const uint8_t> BuildFragmentationNeeded(const Ipv4Packet& packet, size_t mtu,
                                                   Ipv4Addr source, IcmpErrorBuffer* out) noexcept;
// Type 3 code 1: the destination does not answer.
absl::Span<const uint8_t> BuildHostUnreachable(const Ipv4Packet& packet, Ipv4Addr source,
                                               IcmpErrorBuffer* out) noexcept;
// Type 2 (RFC 4443 §3.2).
absl::Span<const uint8_t> BuildPacketTooBig(const Ipv6Packet& packet, size_t mtu,
                                            const Ipv6Addr& source, IcmpErrorBuffer* out) noexcept;
// Type 1 code 3 (RFC 4443 §3.1): the destination does not answer.
absl::Span<const uint8_t> BuildAddressUnreachable(const Ipv6Packet& packet, const Ipv6Addr& source,
                                                  IcmpErrorBuffer* out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_ICMP_ERROR_H_
