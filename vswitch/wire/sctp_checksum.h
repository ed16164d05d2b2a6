// The checksum of SCTP, a CRC32c (RFC 9260 §6.8) in place of an internet checksum. A virtio_net_hdr
// requests both with the same flag, so the packet tells: the request names byte 8 of an SCTP
// header.
#ifndef EOIB_VSWITCH_WIRE_SCTP_CHECKSUM_H_
#define EOIB_VSWITCH_WIRE_SCTP_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/checksum.h"

namespace eoib {

inline constexpr size_t kSctpHeaderSize = 12;
inline constexpr uint16_t kSctpChecksumOffset = 8;

// A packet whose SCTP checksum is requested.
struct SctpPacket {
  // No fragment, and its lengths fit the frame: its checksum can be computed.
  bool is_whole = false;
  // Of the packet, as an offset in the frame, if it is whole; padding may follow.
  size_t end = 0;
};

// Finds the SCTP header that `request` names in a frame of `size` bytes, of which `head` has the
// first ones: behind at most eight tags, and behind IPv4 with options, or IPv6 with at most eight
// extension headers. Nothing if the request names none.
absl::optional<SctpPacket> FindSctp(absl::Span<const uint8_t> head, size_t size,
                                    const ChecksumRequest& request) noexcept;

// Writes the CRC32c of the packet to `field`, which has four bytes. They count as zero in the
// CRC32c.
void WriteSctpChecksum(uint32_t crc, uint8_t* field) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_SCTP_CHECKSUM_H_
