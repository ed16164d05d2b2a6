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
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "control/embed/frame_ring.h"
#include "control/embed/lane_port.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/eoib.h"

namespace eoib {

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
