// GatewayPort: the data path of a gateway, as a port of a VES.
//
//     Transmit: frame -> Translator -> Channel            Flush: one post for the batch
//     Receive:  Channel -> Translator -> frames           also runs timers and tasks of other
//     threads
//
// Hellos of other gateways go to a HelloProtocol, whose election tells the translator whether this
// gateway is active.
//
// Threads: the worker that owns the port calls Port's functions. Other threads call Post and
// PostAndWait. The mutex guards the tasks alone; all else is the worker's, and other threads see it
// only in a task.
//
// Invariants: translator and channel call back (Sink, Listener) inside of Port's functions. Frames
// to the VES keep their order: while frames are pending, later ones are put behind them. A buffer
// of the VES is allocated only while Receive runs.
#ifndef EOIB_GATEWAY_TRANSLATION_GATEWAY_PORT_H_
#define EOIB_GATEWAY_TRANSLATION_GATEWAY_PORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gateway/election/hello_protocol.h"
#include "gateway/link/channel.h"
#include "gateway/translation/frame_joiner.h"
#include "gateway/translation/translator.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/counters.h"
#include "vswitch/base/event_fd.h"
#include "vswitch/port/packet_cutter.h"
#include "vswitch/port/port.h"

namespace eoib::gateway {

// X(enumerator, label, help)
#define EOIB_GATEWAY_PORT_DROPS(X)                                                            \
  X(kQueueFull, "ves_queue_full", "frame to the VES while 1,024 others wait for its buffers") \
  X(kFrameTooLong, "ves_frame_too_long",                                                      \
    "frame to the VES that is longer than the buffers of the VES")

EOIB_LABELLED(PortDrop, EOIB_GATEWAY_PORT_DROPS)

// Frames from the translation to the VES. At any time, in the names of `gateway stats`,
//
//     frames_out of the translation = frames_handed + frames_joined + frame_drops + frames_waiting
//
// X(member, help)
#define EOIB_GATEWAY_PORT_COUNTERS(X)                                                    \
  X(frames_handed, "frames handed to the VES")                                           \
  X(frames_joined, "frames that became a part of the one handed to the VES before them") \
  X(super_frames_cut, "super-frames of the VES that became several packets")

struct PortCounters {
  EOIB_COUNTERS(PortCounters, uint64_t, EOIB_GATEWAY_PORT_COUNTERS)
  uint64_t waiting = 0;  // for a buffer of the VES
  LabelledCounters<PortDrop> drops;
};

class GatewayPort final : public Port, private translation::Sink, private ipoib::Listener {
 public:
  static constexpr size_t kMaxPending = 1024;

  struct Options {
    std::string name;
    HelloProtocol::Options hellos;
    translation::Options translation;
  };
  // `channel` and `clock` outlive it.
  static absl::StatusOr<std::unique_ptr<GatewayPort>> Create(const Options& options,
                                                             ipoib::Channel* channel,
                                                             const Clock* clock);
  ~GatewayPort() override;

  // Port.
  int receive_fd() const override { return epoll_.get(); }
  size_t Receive(BufferPool* pool, uint32_t mtu, absl::Span<Frame> out,
                 PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  bool TakesLarge(const Gso& gso) const noexcept override { return gso.type != GsoType::kNone; }
  DropReason TransmitLarge(const BufferPool& pool, const Frame& frame,
                           bool strip_tag) noexcept override;
  size_t Flush(DropReason* reason) noexcept override;
  MacAddr mac() const override { return {}; }

  // The worker calls `on_change` when the tables have changed, and not again before Saved(). Set it
  // before the worker runs.
  void OnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }
  // On the worker: the caller has taken the tables.
  void Saved() { told_of_change_ = false; }

  // On the worker: see HelloProtocol.
  void SetVesUp(bool up);
  // While no worker runs: takes over what HelloProtocol and Translator take over.
  void Change(const Options& options);

  // The objects that a task may use, on the worker.
  struct TaskContext {
    translation::Translator* translator;
    const HelloProtocol* hellos;
    const ipoib::Channel* channel;
    PortCounters port;
  };
  using Task = std::function<void(const TaskContext&)>;
  // Runs `task` on the worker, between two batches.
  void Post(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, and waits for it until `deadline`, a time of day. kDeadlineExceeded if the worker did
  // not get to it by then; the task will not run later.
  absl::Status PostAndWait(Task task, absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `task` at once. Requires that no worker runs.
  void RunWithoutWorker(const Task& task) { task(task_context()); }

 private:
  // The arguments of Receive while it runs.
  struct Receiving {
    BufferPool* pool = nullptr;  // null outside Receive
    absl::Span<Frame> out;
    size_t count = 0;
    size_t buffers = 0;  // that the frames may still take
  };

  GatewayPort(const Options& options, ipoib::Channel* channel, const Clock* clock);

  absl::Status Watch();
  // translation::Sink
  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                  absl::Span<const uint8_t> payload) override;
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override;
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group,
                    bool beyond_link) override;
  void Listen(const IpoibGroup& group) override;
  void Unlisten(const IpoibGroup& group) override;
  // ipoib::Listener
  void OnPacket(const ipoib::Packet& packet) override;
  void OnLinkState() override;

  bool Continues(const ipoib::Packet& packet);
  Frame* Room(size_t size);
  absl::Span<uint8_t> NextPacket(PacketCutter* cutter);
  void HandPending();
  void RunTasks() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunDue();
  void NoteElection();
  absl::Time NextDeadline() const;
  void EndTurn();
  void SetTimer();
  void Wake() const { RingEventFd(wake_.get()); }
  TaskContext task_context();

  Options options_;
  ipoib::Channel* const channel_;
  const Clock* const clock_;
  UniqueFd epoll_;
  UniqueFd wake_;   // an eventfd
  UniqueFd timer_;  // a timerfd
  absl::Time timer_at_ = absl::InfiniteFuture();
  translation::Translator translator_;
  HelloProtocol hellos_;
  bool was_active_ = false;
  Receiving receiving_;
  FrameJoiner joiner_;
  // The sender of the packet that is being translated, and of the one that began the last frame.
  absl::optional<IpoibAddress> sender_, frame_sender_;
  std::vector<uint8_t> transmitted_;  // the frame that the switch transmits
  // Frames that found no buffer, or were made outside Receive.
  std::deque<std::vector<uint8_t>> pending_;
  PortCounters counters_;
  std::function<void()> on_change_ = [] {};
  uint64_t changes_ = 0;  // the translator's changes() at the last EndTurn
  bool told_of_change_ = false;

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_GATEWAY_PORT_H_
