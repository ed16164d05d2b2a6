// Internet checksums at the edge of the fabric: what a sender may vouch for, and what a receiver makes of it.
//
// A virtual interface hands over frames whose TCP or UDP checksum is only prepared (the pseudo-header sum is in the field,
// "needs checksum" from csum_start, result to csum_start + csum_offset). On the fabric such a frame travels with TCP ok or UDP
// ok set and the sum unfinished. The receiver never marks a wrong sum as valid: it rewrites the pseudo-header sum itself and
// asks its interface to finish, or finishes the sum in software.
#ifndef EOIB_VSWITCH_WIRE_CHECKSUM_H_
#define EOIB_VSWITCH_WIRE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/eoib_header.h"

namespace eoib {

// A checksum to be finished: one's-complement sum of the frame from `start` to the end of the L4 payload, to be stored,
// inverted, at `start + offset`. Offsets count from the destination MAC. As virtio_net_hdr's csum_start and csum_offset.
struct ChecksumRequest {
  bool needed = false;
  uint16_t start = 0;
  uint16_t offset = 0;

  friend constexpr bool operator==(const ChecksumRequest&, const ChecksumRequest&) = default;
};

// The one's-complement sum (RFC 1071) of `bytes`, folded to 16 bits, not inverted, continuing from `initial`. Host value of the
// network-order words: an odd last byte counts as the high half.
uint16_t OnesComplementSum(absl::Span<const uint8_t> bytes, uint32_t initial = 0) noexcept;

// Where the TCP or UDP header of a frame is, by a fresh parse: IPv4 with options, IPv6 with at most eight hop-by-hop, routing
// and destination options headers, behind at most one 802.1Q tag. None is found in a fragment, in a packet whose lengths
// disagree with each other or with the frame, and where the addresses summed are not those of the IPv6 header (segments left to
// route, RFC 8200 §8.1; a home address option, RFC 6275 §11.3.1).
struct L4Location {
  L4Checksum kind = L4Checksum::kNone;  // kTcpOk or kUdpOk: which protocol; kNone: neither was found
  uint16_t ip = 0;                      // offset of the IP header
  uint16_t l4 = 0;                      // offset of the TCP or UDP header
  uint16_t l4_length = 0;               // of header and payload, from the IP header's length, within the frame
};
L4Location FindL4(absl::Span<const uint8_t> frame) noexcept;

// What may be vouched for of `frame` whose sender made `request`. If csum_start is the TCP or UDP header of an unfragmented IP
// packet: that protocol, the frame left as it is. Otherwise the sum is finished in the frame and kNone returned. False, and
// nothing changed, if the request reaches outside of the frame or starts within its Ethernet header or tags: a finished sum is
// a number of the sender's choice, and must not become a VLAN, a MAC address or an EtherType after these have been checked.
bool PrepareChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request, L4Checksum* vouched) noexcept;

// What a receiver does with a frame whose header vouches for `vouched`: the field is set to the pseudo-header sum and the
// request returned that makes an interface finish it. Bytes behind the IP packet are set to zero: an interface sums to the end
// of the frame. Not needed if the frame has no such header after all (then its bytes stay as they are and nothing is claimed of
// them).
ChecksumRequest AcceptChecksum(absl::Span<uint8_t> frame, L4Checksum vouched) noexcept;

// Finishes the sum in software. Requires a request that AcceptChecksum returned, or PrepareChecksum would accept. A sum of zero
// is stored as 0xffff, which is the same number in one's complement; for UDP, zero would say that there is no sum (RFC 768).
void CompleteChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_CHECKSUM_H_
