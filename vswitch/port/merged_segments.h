// TCP segments, or UDP datagrams, that an interface has merged and whose checksum is complete: NICs
// with LRO, and GRO by lists, hand over such super-frames. All others have an unfinished checksum.
#ifndef EOIB_VSWITCH_PORT_MERGED_SEGMENTS_H_
#define EOIB_VSWITCH_PORT_MERGED_SEGMENTS_H_

#include "absl/types/optional.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/piece_reader.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

// Gives the super-frame the unfinished checksum of all others, so that each segment gets one of its
// own. `bytes` reads the frame from its start. False, with nothing changed, if the frame has no TCP
// or UDP header, or a wrong checksum which checksum_is_good does not excuse: its segments would
// have right ones.
inline bool ReopenChecksum(PieceReader bytes, Frame* frame) {
  const absl::optional<SuperFrameHeaders> headers = ParseSuperFrame(frame->bytes(), frame->total());
  if (!headers.has_value()) return false;
  // Where the kernel has verified the segments, the frame may still have the checksum of the first
  // one.
  if (!frame->checksum_is_good) {
    bytes.Skip(headers->l4.l4);
    if (!HasRightChecksum(frame->bytes(), headers->l4, bytes.Sum(headers->l4.l4_length)))
      return false;
  }
  frame->checksum = WritePseudoHeaderSum(frame->bytes(), headers->l4);
  return true;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_MERGED_SEGMENTS_H_
