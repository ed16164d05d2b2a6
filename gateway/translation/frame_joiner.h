// FrameJoiner: makes one super-frame of TCP segments, or UDP datagrams, that cross to the VES one
// after the other. IPoIB carries datagrams only; a super-frame needs one decision and one train in
// the switch, and one write at the receiver.
//
// A segment is copied behind the others into the frame's chain of buffers, so nothing is delayed
// and no order changes. Only segments with a right checksum are joined (SegmentRun): the
// super-frame's is unfinished, and must not hide a wrong one.
//
// For the worker that owns the port.
#ifndef EOIB_GATEWAY_TRANSLATION_FRAME_JOINER_H_
#define EOIB_GATEWAY_TRANSLATION_FRAME_JOINER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/segment_run.h"

namespace eoib::gateway {

class FrameJoiner {
 public:
  // Begins a batch. Frames have their buffers in `pool`, in the layout for the VES MTU `mtu`.
  void Start(BufferPool* pool, uint32_t mtu);
  // Appends the packet to the last frame of the batch if it continues that, and if *buffers, from
  // which this takes, are enough. Otherwise completes that frame: the caller makes a frame of the
  // packet and calls Begin.
  bool Append(absl::Span<const uint8_t> header, absl::Span<const uint8_t> packet, size_t* buffers);
  // The same for a TCP segment whose Ethernet header would be that of the last frame.
  // `checksums_ok`: the packet's are known to be right. If false, nothing has changed.
  bool Continue(absl::Span<const uint8_t> packet, bool checksums_ok, size_t* buffers);
  // `frame` has the packet of the last Append, and stays where it is until it is completed. Only
  // frames of a batch begin a run.
  void Begin(Frame* frame);
  // Completes the last frame of the batch.
  void End();

 private:
  bool Join(absl::Span<const uint8_t> packet, const SegmentRun::Segment& segment, size_t* buffers);
  uint32_t RoomInPiece() const;
  uint32_t TailOfFirst() const;
  bool MayGrow(uint32_t bytes, size_t buffers) const;
  void Fill(absl::Span<const uint8_t> bytes, BufferId next);
  void ClosePiece();

  BufferPool* pool_ = nullptr;
  PieceLayout layout_{kEthernetHeaderSize};      // set by Start
  absl::optional<SegmentRun::Segment> segment_;  // of the last Append, if that can be joined
  SegmentRun run_;
  Frame* frame_ = nullptr;            // of the run
  BufferId last_ = BufferId::None();  // of the frame's chain
  // The piece that is filled, not in the chain yet; none: the first one, which is the frame's head.
  BufferId open_ = BufferId::None();
  uint32_t filled_ = 0;  // bytes in the open piece
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_FRAME_JOINER_H_
