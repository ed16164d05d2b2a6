// Segmentation of TCP and UDP frames in software, for receivers that take no super-frames. The
// segments are those that a kernel or a NIC makes (GSO, TSO): the same headers, with lengths,
// identification, sequence number, flags and checksums of their own.
#ifndef EOIB_VSWITCH_WIRE_SEGMENTATION_H_
#define EOIB_VSWITCH_WIRE_SEGMENTATION_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

// How a frame is cut.
class Segmentation {
 public:
  // For a frame of `size` bytes that begins with `head`, whose checksum is unfinished, into frames
  // of at most `largest` bytes from the destination MAC on. TCP segments become shorter than `gso`
  // says if they must: TCP has no borders of its own. Nothing if the frame has no TCP or UDP
  // header, or if UDP datagrams are larger than `largest`.
  static absl::optional<Segmentation> Of(absl::Span<const uint8_t> head, size_t size,
                                         const Gso& gso, size_t largest) noexcept;

  size_t count() const { return (headers_.payload_length + segment_ - 1) / segment_; }
  size_t ip_at() const { return headers_.l4.ip; }  // offset of the IP header
  // Bytes of headers in each segment: Ethernet to TCP or UDP.
  size_t header_size() const { return headers_.payload; }
  // Offset in the whole frame, and length, of the payload of segment `i`.
  size_t payload_at(size_t i) const { return headers_.payload + i * segment_; }
  size_t payload_size(size_t i) const;
  // Makes the headers of segment `i` at `out`, where the caller has put header_size() bytes of the
  // frame. The TCP or UDP checksum stays unfinished. Returns the request to finish it.
  ChecksumRequest WriteHeaders(size_t i, absl::Span<uint8_t> out) const noexcept;

 private:
  Segmentation(const SuperFrameHeaders& headers, uint32_t segment)
      : headers_(headers), segment_(segment) {}

  SuperFrameHeaders headers_;
  uint32_t segment_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_SEGMENTATION_H_
