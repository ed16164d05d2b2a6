// FrameCutter: cuts large frames in software, for receivers that take neither super-frames nor
// segments. It copies.
#ifndef EOIB_VSWITCH_FORWARDER_FRAME_CUTTER_H_
#define EOIB_VSWITCH_FORWARDER_FRAME_CUTTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/forwarder/packet_batch.h"
#include "vswitch/port/piece_reader.h"
#include "vswitch/wire/segmentation.h"

namespace eoib {

// For the worker that owns the forwarder. The pointers outlive it.
class FrameCutter {
 public:
  FrameCutter(BufferPool* pool, ForwarderCounters* counters) : pool_(pool), counters_(counters) {}

  // Cuts a large frame in its fabric form into frames of at most `largest` bytes. Hands each, in a
  // buffer of its own, to `take`, which takes the buffer and counts the copy. The packet stays the
  // caller's. Counts what cannot be cut as dropped copies.
  void Cut(const Packet& packet, uint32_t largest,
           absl::FunctionRef<void(const Packet& segment)> take);

 private:
  bool CutOne(const Packet& packet, const Segmentation& plan, size_t i, PieceReader* payload,
              Packet* segment);

  BufferPool* const pool_;
  ForwarderCounters* const counters_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FRAME_CUTTER_H_
