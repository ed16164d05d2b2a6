// LanePort: the port of a vPort at one forwarder of its VES. It belongs to a queue of the vPort
// (burst_queue.h).
//
// A frame that the forwarder transmits goes straight into the burst that is being received. If
// there is none, because a thread that works for another vPort runs the forwarder, or if the burst
// is full, the frame goes into the queue's ring.
#ifndef EOIB_CONTROL_EMBED_LANE_PORT_H_
#define EOIB_CONTROL_EMBED_LANE_PORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/eoib.h"
#include "vswitch/forwarder/forwarder.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/port/port.h"

namespace eoib {

class BurstQueue;

// The threads that run one forwarder share it. PolledPath owns it together with the ports.
struct Lane {
  absl::Mutex mutex;
  Forwarder* forwarder ABSL_GUARDED_BY(mutex) = nullptr;  // null: it was removed
  bool polled ABSL_GUARDED_BY(mutex) = false;             // since the control thread looked last
};

// The frames that the program receives.
struct BurstOptions {
  MacAddr mac;  // zero: none
  bool unfinished_checksums = false;
  bool tcp_segments = false;
  bool udp_segments = false;
  size_t queues = 1;
};

// Control calls the constructor, Attach, Detach and WatchEndpoint, while no thread runs the
// forwarder. Any thread calls the rest. The members of Port are for the forwarder; their caller
// holds the lane's mutex.
class LanePort final : public Port {
 public:
  // Both outlive the object.
  LanePort(const BurstOptions* options, BurstQueue* queue) : options_(*options), queue_(queue) {}

  // The port is port `index` of the lane's forwarder. Once only.
  void Attach(std::shared_ptr<Lane> lane, uint32_t index);
  void Detach() { attached_ = false; }
  // The descriptor of a queue pair's events wakes a program that waits.
  absl::Status WatchEndpoint(int fd);

  // Runs the forwarder for frames from the fabric. Returns how many frames came for the burst.
  size_t Receive(absl::Span<eoib_frame> frames);
  // Takes frames from the front. Returns how many.
  size_t Send(absl::Span<const eoib_frame> frames);
  // The program calls it before it sleeps. Returns false if a frame may have arrived without
  // ringing.
  bool Arm();
  // After it has slept.
  void DrainEvents();
  // Frames that waited did not fit.
  void CountLost(size_t frames);
  // Adds what the forwarder has counted.
  void AddCounters(PortCounters* port, ForwarderCounters* forwarder) const;

  // Port.
  int receive_fd() const override { return -1; }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  bool TakesLarge(const Gso& gso) const noexcept override {
    return gso.type == GsoType::kNone ||
           (gso.is_tcp() ? options_.tcp_segments : options_.udp_segments);
  }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override;
  MacAddr mac() const override { return options_.mac; }

 private:
  DropReason Deliver(absl::Span<const uint8_t> frame, const ChecksumRequest& request,
                     const Gso& gso);
  absl::optional<Frame> Take(BufferPool* pool, const PieceLayout& layout,
                             const eoib_frame& from) const;

  const BurstOptions& options_;
  BurstQueue* const queue_;
  std::shared_ptr<Lane> lane_;

  // Under the mutex of lane_.
  uint32_t index_ = 0;
  bool attached_ = false;
  // The burst that is being received, and how many of its frames are filled.
  absl::Span<eoib_frame> target_;
  size_t filled_ = 0;
  // The burst that is being sent, and how many of its frames were taken.
  absl::Span<const eoib_frame> source_;
  size_t taken_ = 0;
  std::vector<uint8_t> joined_;  // a frame with its tag or its pieces joined
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_LANE_PORT_H_
