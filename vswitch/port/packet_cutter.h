// PacketCutter: cuts a super-frame into the IP packets that it stands for, for a link that carries
// nothing else, such as IPoIB. For one thread.
//
// The packets have complete checksums. Their sender left them to the interface, so there is no
// wrong one that this could hide: a super-frame that says otherwise is not cut.
#ifndef EOIB_VSWITCH_PORT_PACKET_CUTTER_H_
#define EOIB_VSWITCH_PORT_PACKET_CUTTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/piece_reader.h"
#include "vswitch/wire/segmentation.h"

namespace eoib {

class PacketCutter {
 public:
  // For a super-frame whose buffers are in `pool`. Nothing if it is none, or asks for another
  // checksum than TCP's or UDP's. The frame stays as it is while it is cut.
  static absl::optional<PacketCutter> Of(const BufferPool& pool, const Frame& frame) noexcept;
  // For one in a single piece, without a buffer.
  static absl::optional<PacketCutter> Of(const Frame& frame) noexcept;

  // Bytes of the next packet; 0 if there is none.
  size_t NextSize() const;
  // Makes the next packet at the start of `room`, and returns it. Requires room for NextSize()
  // bytes, which are not 0.
  absl::Span<uint8_t> Next(absl::Span<uint8_t> room) noexcept;

 private:
  static constexpr size_t kLargestHeaders = 256;

  PacketCutter(const Segmentation& plan, absl::Span<const uint8_t> head, PieceReader payload)
      : plan_(plan), head_(head), payload_(payload) {}
  static absl::optional<PacketCutter> Of(const Frame& frame, PieceReader bytes) noexcept;

  Segmentation plan_;
  absl::Span<const uint8_t> head_;  // has the headers
  PieceReader payload_;
  size_t next_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PACKET_CUTTER_H_
