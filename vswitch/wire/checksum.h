// Checksums at the edge of the fabric: what a sender may vouch for, and how a receiver treats it.
//
// A virtual interface hands over frames with a prepared TCP or UDP checksum: the field has the
// pseudo-header sum, and csum_start and csum_offset say where to finish it. Such a frame crosses
// the fabric unfinished, with TCP ok or UDP ok set. The receiver never marks a wrong sum as valid:
// it rewrites the pseudo-header sum and asks its interface to finish, or finishes the sum in
// software.
#ifndef EOIB_VSWITCH_WIRE_CHECKSUM_H_
#define EOIB_VSWITCH_WIRE_CHECKSUM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/eoib_header.h"

namespace eoib {

// A request to finish a checksum: the inverted one's-complement sum from `start` to the end of the
// L4 payload goes to `start + offset`; of SCTP, the CRC32c (sctp_checksum.h). Offsets count from
// the destination MAC, as csum_start and csum_offset of a virtio_net_hdr.
struct ChecksumRequest {
  bool needed = false;
  uint16_t start = 0;
  uint16_t offset = 0;

  friend constexpr bool operator==(const ChecksumRequest&, const ChecksumRequest&) = default;
};

// Finds the TCP or UDP header of a frame by a fresh parse: IPv4 with options, or IPv6 with at most
// eight hop-by-hop, routing and destination options headers, behind at most one 802.1Q tag. Finds
// none in a fragment, in a packet whose lengths disagree with each other or with the frame, or
// where the checksum covers other addresses than the IPv6 header's (segments left, RFC 8200 §8.1; a
// home address option, RFC 6275 §11.3.1).
struct L4Location {
  L4Checksum kind = L4Checksum::kNone;  // the protocol, as kTcpOk or kUdpOk; kNone: no header found
  uint16_t ip = 0;                      // offset of the IP header
  uint16_t l4 = 0;                      // offset of the TCP or UDP header
  uint16_t l4_length = 0;               // header and payload, from the IP header's length
};
inline L4Location FindL4(absl::Span<const uint8_t> frame) noexcept;
// The same for a frame of `size` bytes, of which `head` has the first ones. Finds none if the
// headers do not end in `head`.
L4Location FindL4(absl::Span<const uint8_t> head, size_t size) noexcept;

// For a sender: sets *vouched to what it may vouch for. If csum_start is the TCP or UDP header of
// an unfragmented IP packet, that is the protocol, and the frame stays as it is. Otherwise finishes
// the sum in the frame and sets kNone. False, with nothing changed, if the request points outside
// the frame or starts within its Ethernet header or tags: the sender can choose the sum, which must
// not become a VID, a MAC address or an EtherType after these were checked. Also false for a
// fragment of SCTP, and where lengths disagree: its CRC32c covers bytes that are not there.
bool PrepareChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request,
                     L4Checksum* vouched) noexcept;

// For a receiver of a frame that was vouched for: sets the checksum field to the pseudo-header sum
// and returns the request for the interface to finish it. Zeroes the bytes behind the IP packet,
// because an interface sums to the end of the frame. If the frame has no such header, returns an
// empty request and leaves the frame as it is.
ChecksumRequest AcceptChecksum(absl::Span<uint8_t> frame, L4Checksum vouched) noexcept;

// The step that both ends share: sets the checksum field of the header at `where` to the
// pseudo-header sum, and returns the request to finish it.
ChecksumRequest WritePseudoHeaderSum(absl::Span<uint8_t> head, const L4Location& where) noexcept;

// True if `request` names the checksum field of the header at `where`.
bool NamesChecksumOf(const L4Location& where, const ChecksumRequest& request) noexcept;

// True if the checksum of the header at `where` is complete and right, or if a UDP datagram over
// IPv4 has none (RFC 768). `sum` is the one's-complement sum of the l4_length bytes from the header
// on.
bool HasRightChecksum(absl::Span<const uint8_t> head, const L4Location& where,
                      uint16_t sum) noexcept;

// Finishes the sum in software. Leaves the frame as it is for a request that PrepareChecksum would
// not accept.
void CompleteChecksum(absl::Span<uint8_t> frame, const ChecksumRequest& request) noexcept;

// What the field at `offset` of an L4 header has for `sum`, the one's-complement sum of all that it
// covers. In UDP zero means "no checksum", so there it is 0xffff, the same number (RFC 768).
// Elsewhere zero stays zero (RFC 1624 §3).
uint16_t ChecksumField(uint16_t sum, uint16_t offset) noexcept;

inline L4Location FindL4(absl::Span<const uint8_t> frame) noexcept {
  return FindL4(frame, frame.size());
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_CHECKSUM_H_
