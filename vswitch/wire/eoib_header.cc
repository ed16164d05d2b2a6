#include "vswitch/wire/eoib_header.h"

namespace eoib {
namespace {

// The header as one 32-bit number; wire_format.md has the bits.
constexpr uint32_t kSignature = 3u << 30;
constexpr uint32_t kSignatureMask = 3u << 30;
constexpr uint32_t kVersionMask = 3u << 28;
constexpr int kL4ChecksumShift = 26;
constexpr int kIpChecksumShift = 24;
constexpr uint32_t kChecksumMask = 3;
constexpr uint32_t kExtension = 1u << 23;
constexpr uint32_t kFcsPresent = 1u << 22;
constexpr uint32_t kSegmentMask = 0x003f'ffff;  // more segments, segment offset, segment id
constexpr uint32_t kMoreSegments = 1u << 21;
constexpr int kSegmentOffsetShift = 16;
constexpr uint32_t kSegmentOffsetMask = kMaxSegments - 1;
constexpr uint32_t kIpChecksumOk = 1;
constexpr uint32_t kLargestL4Checksum = static_cast<uint32_t>(L4Checksum::kUdpOk);

DropReason DecodeEoibForm(uint32_t word, EoibHeader* header) {
  const uint32_t l4 = word >> kL4ChecksumShift & kChecksumMask;
  const uint32_t ip = word >> kIpChecksumShift & kChecksumMask;
  if ((word & kVersionMask) != 0) return DropReason::kBadVersion;
  const bool extension = (word & kExtension) != 0;
  // Any nonzero id counts: a peer that numbers its frames may send segments in a way that this
  // version does not know.
  if (!extension && (word & kSegmentMask) != 0) return DropReason::kSegment;
  if (extension && (word & kFcsPresent) != 0) return DropReason::kSegment;
  if (l4 > kLargestL4Checksum || ip > kIpChecksumOk) return DropReason::kHeaderReserved;
  *header = {
      .form = HeaderForm::kEoib,
      .l4_checksum = static_cast<L4Checksum>(l4),
      .ip_checksum_ok = ip == kIpChecksumOk,
      .fcs_present = (word & kFcsPresent) != 0,
      .extension = extension,
      .more_segments = (word & kMoreSegments) != 0,
      .segment_offset = static_cast<uint8_t>(word >> kSegmentOffsetShift & kSegmentOffsetMask),
      .segment_id = static_cast<uint16_t>(word)};
  return DropReason::kNone;
}

}  // namespace

DropReason DecodeEoibHeader(absl::Span<const uint8_t> datagram, EoibHeader* header) noexcept {
  if (datagram.size() < kEoibHeaderSize) return DropReason::kNotEoib;
  const uint32_t word = ReadWire<be32>(datagram.data()).value();
  if ((word & kSignatureMask) == kSignature) return DecodeEoibForm(word, header);
  if (word >> 16 != kAlternativeMagic) return DropReason::kNotEoib;
  *header = {.form = HeaderForm::kAlternative};
  return DropReason::kNone;
}

void EncodeEoibHeader(const EoibHeader& header, uint8_t* out) noexcept {
  uint32_t word = uint32_t{kAlternativeMagic} << 16;
  if (header.form == HeaderForm::kEoib) {
    word = kSignature | static_cast<uint32_t>(header.l4_checksum) << kL4ChecksumShift |
           static_cast<uint32_t>(header.ip_checksum_ok) << kIpChecksumShift |
           (header.fcs_present ? kFcsPresent : 0);
    if (header.extension) {
      word |= kExtension | (header.more_segments ? kMoreSegments : 0) |
              uint32_t{header.segment_offset} << kSegmentOffsetShift | header.segment_id;
    }
  }
  WriteWire(be32(word), out);
}

}  // namespace eoib
