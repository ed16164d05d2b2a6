// PieceLayout: where a port puts the bytes of a frame that is larger than a datagram, so that each
// buffer becomes one datagram without a copy.
#ifndef EOIB_VSWITCH_PORT_PIECE_LAYOUT_H_
#define EOIB_VSWITCH_PORT_PIECE_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/segment_extension.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

struct PieceLayout {
  // `mtu` is the VES MTU: the largest frame that a datagram carries. So many tags may be inserted
  // later: one by the forwarder, and one by a port whose kernel hands over tags beside the frame.
  explicit PieceLayout(uint32_t mtu, uint32_t tags = 1)
      : datagram(mtu), piece(mtu - kSegmentExtensionSize), first(piece - tags * kVlanTagSize) {}

  uint32_t datagram;  // the largest ordinary frame that is in one buffer, in bytes
  uint32_t piece;     // bytes in each buffer but the first and the last
  uint32_t first;     // bytes in the first one, without tags that are inserted later

  // Buffers of a frame of `length` bytes that is in pieces.
  size_t BuffersFor(size_t length) const {
    return length <= first ? 1 : 1 + (length - first + piece - 1) / piece;
  }
  // The largest frame.
  size_t Largest() const {
    return std::min<size_t>(kLargestSuperFrame, first + (kMaxSegments - 1) * piece);
  }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PIECE_LAYOUT_H_
