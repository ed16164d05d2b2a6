// VhostPort: a port on the network interface of a virtual machine, whose memory the switch shares
// (vhost-user). Frames pass between guest memory and the pool's buffers with one copy and without
// the kernel. README.md ("Virtual machines") describes offloads, threads and what a guest can do.
#ifndef EOIB_VSWITCH_PORT_VHOST_VHOST_PORT_H_
#define EOIB_VSWITCH_PORT_VHOST_VHOST_PORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/piece_layout.h"
#include "vswitch/port/port.h"
#include "vswitch/port/vhost/guest_access.h"
#include "vswitch/port/vhost/interrupts.h"
#include "vswitch/port/vhost/parking_gate.h"
#include "vswitch/port/vhost/vhost_backend.h"
#include "vswitch/port/vhost/virtqueue.h"
#include "vswitch/port/vnet_header.h"

namespace eoib {

class ChainReader;

// Threads: the worker calls the functions of Port, control the others, and threads of the library
// those of VhostDevice.
//
// Invariants: the worker looks at guest memory and queues_ inside of the gate only. The library
// changes them while it has parked the worker, under the mutex, so control may look at queues_
// under the mutex. The worker never takes the mutex; it shares atomics with control. Frames that
// are not published yet keep the worker inside of the gate until Flush.
class VhostPort final : public Port, private VhostDevice {
 public:
  struct Options {
    std::string socket;
    bool server = true;  // listen at the socket; else connect to it
  };

  // Opens the socket. A stale socket of a former process is replaced. kFailedPrecondition if the
  // path cannot be used, or the kernel has no room for Interrupts; the message says what to do.
  // `backend` outlives the port.
  static absl::StatusOr<std::unique_ptr<VhostPort>> Open(const Options& options,
                                                         VhostBackend* backend);
  // Disconnects the machine. While no worker uses the port.
  ~VhostPort() override;

  // Control. Why no frames pass; empty if they do.
  std::string Trouble() const;
  // The interface's MTU for the guest, by Describe, and the largest frame that it takes.
  void SetMtu(int mtu) {
    largest_.store(static_cast<uint32_t>(mtu) + kMtuOverhead, std::memory_order_relaxed);
  }
  // "vhost-user /run/eoib/vm1.sock, server, 2 queue pairs, offloads checksum TSO".
  std::string Describe() const;

  int receive_fd() const override { return ready_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  bool TakesLarge(const Gso& gso) const noexcept override;
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override;
  size_t Flush(DropReason* reason) noexcept override;
  // None: the guest has its own.
  MacAddr mac() const override { return MacAddr(); }

 private:
  // A packet of 64 KiB, its headers and two tags.
  static constexpr size_t kLargestFrame = 65536 + 64;
  // What an event of the guest's descriptors carries; others carry 0.
  static constexpr uint64_t kNotification = 1;

  struct Queue {
    Virtqueue ring;
    UniqueFd notify;
    UniqueFd interrupt;
  };
  struct Taken;

  VhostPort(const Options& options, VhostBackend* backend, Interrupts* interrupts);

  // VhostDevice.
  bool Connect() override;
  void Refuse() override;
  void Disconnect(const std::string& fault) override;
  std::vector<Virtqueue::Indices> Park() override;
  void Resume(const VhostState& state) override;
  void Announce(MacAddr mac) override;

  void Attach(const VhostState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t pairs() const { return queues_.size() / 2; }

  // The worker, inside of the gate.
  void Collect(Taken* taken) noexcept;
  bool CollectFrom(Queue* queue, Taken* taken) noexcept;
  enum class Outcome { kTaken, kRefused, kNoBuffer };
  Outcome TakeFrame(Taken* taken) noexcept;
  Outcome TakeWhole(const VnetHeader& header, uint32_t length, const Gso& gso, ChainReader* reader,
                    Taken* taken) noexcept;
  void TakeAnnouncement(Taken* taken) noexcept;
  bool WaitForMore() noexcept;
  void NoteChains() noexcept;
  void ClearReady() noexcept;
  bool IsToEnter() noexcept;
  Queue* QueueFor(const Frame& frame) noexcept;
  DropReason Write(const BufferPool* pool, const Frame& frame, bool strip_tag) noexcept;
  DropReason WriteTo(Queue* queue, const BufferPool* pool, const Frame& frame,
                     bool strip_tag) noexcept;
  void Interrupt(const Queue& queue) noexcept;
  void NoteFaults() noexcept;
  // Whether the guest takes no frames until something changes. False while a message parks the
  // worker.
  bool down() const {
    return !in_use_.load(std::memory_order_relaxed) || faulty_.load(std::memory_order_relaxed);
  }

  const Options options_;
  VhostBackend* const backend_;
  Interrupts* const interrupts_;
  // An epoll descriptor of wake_ and the queues' notifications, edge-triggered.
  const UniqueFd ready_;
  const UniqueFd wake_;
  ParkingGate gate_;
  std::atomic<uint64_t> features_{0};
  std::atomic<uint32_t> largest_{1500 + kMtuOverhead};
  std::atomic<uint64_t> announced_{0};  // a MAC that the worker announces
  std::atomic<bool> in_use_{false};     // the guest's driver uses a pair of queues
  std::atomic<bool> faulty_{false};     // a queue is broken, or memory is lost
  // Until the machine disconnects.
  const std::shared_ptr<GuestAccess::Lost> lost_ = std::make_shared<GuestAccess::Lost>(false);
  // Since the guest's driver started: whether its rings had anything, and its notifications before
  // that. A guest whose memory is not shared notifies, and its rings stay empty here.
  std::atomic<bool> has_chains_{false};
  std::atomic<uint32_t> empty_notifications_{0};

  // The worker's, inside of the gate; the library's, while the worker is parked.
  std::vector<Queue> queues_;
  GuestMemory memory_;
  size_t header_size_ = 12;
  size_t next_pair_ = 0;  // whose turn it is
  // Frames since the last Flush. The workers are inside of the gate meanwhile.
  size_t unpublished_ = 0;
  DescriptorChain chain_;
  // A frame to be divided, or whose checksum is to be finished.
  const std::unique_ptr<uint8_t[]> whole_;

  mutable absl::Mutex mutex_;  // for control and the library
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  bool heard_ ABSL_GUARDED_BY(mutex_) = false;  // the machine has sent a message
  bool shares_memory_ ABSL_GUARDED_BY(mutex_) = false;
  size_t ready_pairs_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t refused_ ABSL_GUARDED_BY(mutex_) = 0;  // further machines
  std::string fault_ ABSL_GUARDED_BY(mutex_);   // for which the last connection was ended
  uint16_t guest_mtu_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_VHOST_PORT_H_
