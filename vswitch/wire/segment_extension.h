// The extension of the EoIB header: eight bytes between the header and the piece of a frame in each
// segment. wire_format.md, "Segments".
#ifndef EOIB_VSWITCH_WIRE_SEGMENT_EXTENSION_H_
#define EOIB_VSWITCH_WIRE_SEGMENT_EXTENSION_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

inline constexpr size_t kSegmentExtensionSize = 8;
inline constexpr size_t kSegmentHeaderSize = kEoibHeaderSize + kSegmentExtensionSize;

// What every segment of a frame says of the whole frame.
struct SegmentExtension {
  uint16_t total = 0;  // bytes of the frame, from the destination MAC on
  // Bytes in each segment but the first and the last, which have at most as many.
  uint16_t piece = 0;
  Gso gso;  // kNone: a large frame, which is not to be cut
  // 12 bits: offset of the header with the unfinished checksum; 0: none.
  uint16_t checksum_start = 0;

  friend constexpr bool operator==(const SegmentExtension&, const SegmentExtension&) = default;
};

// Decodes the first kSegmentExtensionSize bytes of `bytes`. False if there are less, for a type or
// a length that no sender writes, or if the lengths allow no frame of at most kMaxSegments pieces.
// An accepted extension re-encodes to the same bytes.
bool DecodeSegmentExtension(absl::Span<const uint8_t> bytes, SegmentExtension* extension) noexcept;
// Writes kSegmentExtensionSize bytes.
void EncodeSegmentExtension(const SegmentExtension& extension, uint8_t* out) noexcept;

// Validates an extension against a fresh parse of the frame of extension.total bytes that begins
// with `head`. Returns false if the extension or the header's checksum status describe another
// frame. Otherwise sets *request: for a vouched checksum, writes the pseudo-header sum and requests
// the rest, as AcceptChecksum does.
bool AcceptSuperFrame(absl::Span<uint8_t> head, const SegmentExtension& extension,
                      L4Checksum vouched, ChecksumRequest* request) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_SEGMENT_EXTENSION_H_
