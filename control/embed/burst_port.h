// BurstPort: a port of an embedding program. The program's threads take and give its frames, by bursts, and run the forwarder
// meanwhile.
//
// A frame that the forwarder transmits goes straight into the burst that is being received. If there is none, because another
// thread runs the forwarder, or if it is full, the frame waits in a backlog for the next burst.
#ifndef EOIB_CONTROL_EMBED_BURST_PORT_H_
#define EOIB_CONTROL_EMBED_BURST_PORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/eoib.h"
#include "vswitch/forwarder.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/port/port.h"

namespace eoib {

// What the threads that run one forwarder share. PolledPath owns it together with the ports.
struct Lane {
  absl::Mutex mutex;
  Forwarder* forwarder ABSL_GUARDED_BY(mutex) = nullptr;  // null: it was removed
  bool polled ABSL_GUARDED_BY(mutex) = false;             // since the control thread looked last
};

// Control calls the constructor, Attach, Detach, WatchEndpoint and SetMtu, SetLink. Any thread calls the rest, as eoib.h
// allows. The members of Port are for the forwarder; their caller holds the lane's mutex.
class BurstPort final : public Port {
 public:
  struct Options {
    MacAddr mac;  // zero: none
    bool unfinished_checksums = false;
    bool tcp_segments = false;
    bool udp_segments = false;
  };
  static constexpr size_t kBacklog = 512;  // frames

  static absl::StatusOr<std::unique_ptr<BurstPort>> Create(const Options& options);

  // While no thread runs the forwarder of `lane`: the port is its port `index`. Attach once only.
  void Attach(std::shared_ptr<Lane> lane, uint32_t index);
  void Detach();
  // Adds the descriptor of a queue pair's events to the wait descriptor.
  absl::Status WatchEndpoint(int fd);
  void SetMtu(uint32_t mtu);
  void SetLink(bool up);

  // See eoib.h.
  size_t ReceiveBurst(absl::Span<eoib_frame> frames);
  size_t SendBurst(absl::Span<const eoib_frame> frames);
  bool Arm();
  int wait_fd() const { return wait_.get(); }
  eoib_state State();
  int state_event_fd() const { return state_event_.get(); }
  eoib_stats Stats() const;
  // Calls `visit` with name and value of each counter of the VES.
  void VisitCounters(absl::FunctionRef<void(const char* name, uint64_t value)> visit) const;

  // Port.
  int receive_fd() const override { return -1; }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  bool TakesLarge(const Gso& gso) const noexcept override {
    return gso.type == GsoType::kNone || (gso.is_tcp() ? options_.tcp_segments : options_.udp_segments);
  }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame, bool strip_tag) noexcept override;
  MacAddr mac() const override { return options_.mac; }

 private:
  // A frame in the backlog. It keeps its memory for the next one.
  struct Kept {
    std::vector<uint8_t> bytes;
    eoib_frame metadata;
  };

  explicit BurstPort(const Options& options) : options_(options) {}
  DropReason Deliver(absl::Span<const uint8_t> frame, const ChecksumRequest& request, const Gso& gso);
  bool GiveKept(absl::Span<eoib_frame> frames, size_t* count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lane_->mutex);
  absl::optional<Frame> Take(BufferPool* pool, const PieceLayout& layout, const eoib_frame& from) const;
  void ChangeState();

  const Options options_;
  UniqueFd wait_;         // an epoll set: bell_ and the events of the queue pair
  UniqueFd bell_;         // an eventfd: the backlog has frames, and the program waits
  UniqueFd state_event_;  // an eventfd
  std::shared_ptr<Lane> lane_;

  // Under the mutex of lane_.
  uint32_t index_ = 0;
  bool attached_ = false;
  bool armed_ = false;             // the program waits, or will
  absl::Span<eoib_frame> target_;  // the burst that is being received, and how many of its frames are filled
  size_t filled_ = 0;
  absl::Span<const eoib_frame> source_;  // the burst that is being sent, and how many of its frames were taken
  size_t taken_ = 0;
  std::vector<Kept> backlog_;  // a ring, with the oldest at backlog_first_
  size_t backlog_first_ = 0, backlog_count_ = 0;
  std::vector<uint8_t> joined_;  // a frame with its tag or its pieces joined

  std::atomic<bool> carrier_{false};
  std::atomic<uint32_t> mtu_{0};
  std::atomic<uint64_t> carrier_resets_{0}, changes_{0};
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_BURST_PORT_H_
