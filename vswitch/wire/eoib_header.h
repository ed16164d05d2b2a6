// The EoIB encapsulation header: four bytes before each Ethernet frame in a UD datagram. See
// wire_format.md.
#ifndef EOIB_VSWITCH_WIRE_EOIB_HEADER_H_
#define EOIB_VSWITCH_WIRE_EOIB_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "fdb/vport_address.h"  // HeaderForm
#include "vswitch/base/byte_order.h"
#include "vswitch/base/drop_reason.h"

namespace eoib {

inline constexpr size_t kEoibHeaderSize = 4;
inline constexpr size_t kMaxSegments = 32;  // of a frame
// The alternative 4-byte header: 0x8919 and two reserved bytes (Oracle XVE, iPXE).
inline constexpr uint16_t kAlternativeMagic = 0x8919;

// The checksum that the sender vouches for. "Ok" vouches for a checksum that may not be in the
// frame (wire_format.md, Checksums).
enum class L4Checksum : uint8_t { kNone = 0, kTcpOk = 1, kUdpOk = 2 };

// A decoded encapsulation header. Re-encoding is exact: EncodeEoibHeader(DecodeEoibHeader(b)) == b
// for every accepted b, except for the reserved bytes of the alternative form, which are ignored on
// receipt and sent as zero.
struct EoibHeader {
  HeaderForm form = HeaderForm::kEoib;
  L4Checksum l4_checksum = L4Checksum::kNone;
  bool ip_checksum_ok = false;
  bool fcs_present = false;  // the frame ends with its FCS (EndsWithFcs); our frames do not
  bool extension = false;    // a segment: an extension follows (segment_extension.h)
  // Without an extension these are 0.
  bool more_segments = false;
  uint8_t segment_offset = 0;  // number of the segment in its frame, from 0, below kMaxSegments
  uint16_t segment_id = 0;     // of the frame, counted by the sender's QP

  friend constexpr bool operator==(const EoibHeader&, const EoibHeader&) = default;
};

// Decodes the header at the start of `datagram` (a UD payload without GRH). On success sets *header
// and returns kNone. Otherwise returns kNotEoib (too short, or no signature of either form),
// kBadVersion, kSegment (more-segments bit, segment offset or id set without an extension, or an
// extension with an FCS), or kHeaderReserved (a reserved checksum status: 11 for TCP/UDP, 10 or 11
// for IP).
DropReason DecodeEoibHeader(absl::Span<const uint8_t> datagram, EoibHeader* header) noexcept;

// Writes kEoibHeaderSize bytes. The alternative form cannot vouch for a checksum: finish it first
// (CompleteChecksum). It has no segments either.
void EncodeEoibHeader(const EoibHeader& header, uint8_t* out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_EOIB_HEADER_H_
