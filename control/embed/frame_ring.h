// FrameRing: frames that wait for the program, because another thread forwarded them or its burst
// was full.
#ifndef EOIB_CONTROL_EMBED_FRAME_RING_H_
#define EOIB_CONTROL_EMBED_FRAME_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/eoib.h"

namespace eoib {

// Sums up the room for a frame, and copies a frame there, with what is known of it.
size_t RoomIn(const eoib_frame& frame);
void Put(absl::Span<const uint8_t> bytes, const eoib_frame& metadata, eoib_frame* to);

// Any thread. The frames of one thread stay in their order.
class FrameRing {
 public:
  static constexpr size_t kCapacity = 512;
  enum class Pushed { kFull, kFirst, kFurther };  // kFirst: the ring was empty
  enum class Taken { kNone, kFrame, kTooLarge };

  FrameRing() : frames_(kCapacity) {}

  bool empty() const { return count_.load() == 0; }
  // Copies the frame.
  Pushed Push(absl::Span<const uint8_t> bytes, const eoib_frame& metadata);
  // Takes the oldest frame. If `to` has too little room, the frame is lost.
  Taken Take(eoib_frame* to);

 private:
  // It keeps its memory for the next frame.
  struct Kept {
    std::vector<uint8_t> bytes;
    eoib_frame metadata;
  };

  absl::Mutex mutex_;
  std::vector<Kept> frames_ ABSL_GUARDED_BY(mutex_);  // a ring, with the oldest at first_
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<size_t> count_{0};  // changes under mutex_
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_FRAME_RING_H_
