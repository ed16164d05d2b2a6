// ICMP errors that a node on the way, or a host's own link layer, tells the sender of a packet: RFC 792, RFC 1191; RFC 4443.
//
// The caller decides that something is wrong, and how often it says so: RFC 1812 §4.3.2.8 and RFC 4443 §2.4(f) ask for a limit.
// What the packet itself forbids is refused here. What the frame forbids is the caller's to know: no error about a packet that
// came as link-layer broadcast or multicast (RFC 1122 §3.2.2, RFC 4443 §2.4(e.4)), but "packet too big".
#ifndef EOIB_VSWITCH_WIRE_ICMP_ERROR_H_
#define EOIB_VSWITCH_WIRE_ICMP_ERROR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/ip_address.h"
#include "vswitch/wire/ip_packet.h"

namespace eoib {

// Room for any error: of ICMPv6 they have at most 1,280 bytes (RFC 4443 §2.4(c)), of ICMP 576 (RFC 1812 §4.3.2.3).
using IcmpErrorBuffer = std::array<uint8_t, kMinIpv6Mtu>;

// Each writes a whole IP packet from `source`, one address of who reports, to the packet's sender, with as much of the packet
// as there may be in it. Returns the bytes of *out that it has; none if there must not be such an error:
//
// - about an ICMP error (or, of ICMPv6, a redirect; or what stands behind too many extension headers to know);
// - about a part of an IPv4 datagram that is not its first;
// - about a packet to a group or to 255.255.255.255 (a subnet's broadcast address is known to the caller only). IPv6 packets to
//   a group may be too big, though: that is how their senders find out;
// - if the sender is nobody in particular: 0.0.0.0/8 or ::, loopback, a group, 240.0.0.0/4 with 255.255.255.255;
// - if `source` is such a one;
// - if `mtu` is below what every link takes (kMinIpv4Mtu, kMinIpv6Mtu), or the packet not larger than it.

// Type 3 code 4 with RFC 1191 §4's next-hop MTU. About packets that may be cut, too: the caller knows why it does not cut.
absl::Span<const uint8_t> BuildFragmentationNeeded(const Ipv4Packet& packet, size_t mtu, Ipv4Addr source,
                                                   IcmpErrorBuffer* out) noexcept;
// Type 3 code 1: nobody answers for the destination.
absl::Span<const uint8_t> BuildHostUnreachable(const Ipv4Packet& packet, Ipv4Addr source, IcmpErrorBuffer* out) noexcept;
// Type 2 (RFC 4443 §3.2).
absl::Span<const uint8_t> BuildPacketTooBig(const Ipv6Packet& packet, size_t mtu, const Ipv6Addr& source,
                                            IcmpErrorBuffer* out) noexcept;
// Type 1 code 3 (RFC 4443 §3.1): nobody answers for the destination.
absl::Span<const uint8_t> BuildAddressUnreachable(const Ipv6Packet& packet, const Ipv6Addr& source,
                                                  IcmpErrorBuffer* out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_ICMP_ERROR_H_
