// BurstQueue: a queue of a vPort of an embedding program. One thread at a time receives from it,
// and one sends to it.
//
// It polls one of the VES's forwarders, and more if the vPort has fewer queues than the VES. Each
// has the vPort at a LanePort.
#ifndef EOIB_CONTROL_EMBED_BURST_QUEUE_H_
#define EOIB_CONTROL_EMBED_BURST_QUEUE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "control/embed/lane_port.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/eoib.h"

namespace eoib {

// Sums up the room for a frame, and copies a frame there, with what is known of it.
size_t RoomIn(const eoib_frame& frame);
void Put(absl::Span<const uint8_t> bytes, const eoib_frame& metadata, eoib_frame* to);

// Frames that wait for the program, because another thread forwarded them or its burst was full.
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

// Control calls Create, Add and Watch. Lanes are added while no thread runs their forwarder.
class BurstQueue {
 public:
  static absl::StatusOr<std::unique_ptr<BurstQueue>> Create();

  // The first one added also sends. They are destroyed after the last call of the program.
  void Add(LanePort* lane);
  absl::Status Watch(int fd);

  // See eoib.h.
  size_t ReceiveBurst(absl::Span<eoib_frame> frames);
  size_t SendBurst(absl::Span<const eoib_frame> frames);
  bool Arm();
  int wait_fd() const { return wait_.get(); }

  // For the lanes. A frame for the program waits; false if too many do.
  bool Keep(absl::Span<const uint8_t> bytes, const eoib_frame& metadata);
  bool HasKept() const { return !ring_.empty(); }

  absl::Span<LanePort* const> lanes() const {
    return {lanes_.data(), lane_count_.load(std::memory_order_acquire)};
  }

 private:
  BurstQueue() = default;
  size_t TakeKept(absl::Span<eoib_frame> frames);

  UniqueFd wait_;  // an epoll set: bell_ and the events of the queue pairs
  UniqueFd bell_;  // an eventfd: the ring has frames, and the program waits
  FrameRing ring_;
  std::atomic<bool> armed_{false};  // the program waits, or will
  std::array<LanePort*, VPortDirectory::kMaxAddresses> lanes_{};
  std::atomic<size_t> lane_count_{0};
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_BURST_QUEUE_H_
