// Division of super-frames that are too large for one chain of buffers: a kernel hands over up to
// 64 KiB behind the headers.
#ifndef EOIB_VSWITCH_PORT_DIVIDE_SUPER_FRAME_H_
#define EOIB_VSWITCH_PORT_DIVIDE_SUPER_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/piece_layout.h"

namespace eoib {

// The most parts that DivideSuperFrame makes of a frame of `size` bytes. A part is more than half
// of the largest frame, except the last one.
inline size_t MostParts(size_t size, const PieceLayout& layout) {
  return size <= layout.Largest() ? 1 : 2 * ((size + layout.Largest() - 1) / layout.Largest()) + 1;
}
// The most buffers that those parts take: one more in each than the bytes fill.
inline size_t MostBuffers(size_t size, const PieceLayout& layout) {
  return size / layout.piece + 2 * MostParts(size, layout);
}

// Divides the super-frame `whole`, whose checksum is unfinished, into super-frames that stand for
// the same segments, and the last one perhaps for a single segment. Puts them into buffers of
// `pool`, which belong to the caller, in the layout for such frames. Returns their number; 0, with
// no buffer taken, if `whole` is no super-frame as `gso` says, or if `out` or the pool has no room
// for all.
size_t DivideSuperFrame(absl::Span<const uint8_t> whole, const Gso& gso, const PieceLayout& layout,
                        BufferPool* pool, absl::Span<Frame> out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_DIVIDE_SUPER_FRAME_H_
