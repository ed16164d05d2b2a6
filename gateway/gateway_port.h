// GatewayPort: the data path of a gateway, as a port of a VES. What the switch transmits to it is translated and sent to the
// IPoIB link; what arrives there is translated and received from it. So a gateway is in the VES what an interface is: it has
// its VLAN, its addresses are learned, its counters and limits are a vPort's.
//
//     Transmit: frame -> Translator -> Channel            Flush: one post for the batch
//     Receive:  Channel -> Translator -> frames           also: what is due, what other threads asked for
//
// It also says and hears the hellos of the election, and tells the translator whether this gateway works.
//
// Threads. Port's functions: the worker that owns the port. Ask, Post and the snapshots of counters: any other.
#ifndef EOIB_GATEWAY_GATEWAY_PORT_H_
#define EOIB_GATEWAY_GATEWAY_PORT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "fdb/clock.h"
#include "gateway/election.h"
#include "gateway/hello.h"
#include "gateway/ipoib/channel.h"
#include "gateway/translation/aged_table.h"
#include "gateway/translation/translator.h"
#include "vswitch/fabric/unique_fd.h"
#include "vswitch/port/port.h"

namespace eoib::gateway {

class GatewayPort final : public Port, private translation::Sink, private ipoib::Listener {
 public:
  static constexpr size_t kMaxPending = 1024;
  static constexpr size_t kMaxOthers = 64;

  struct Options {
    std::string name;
    Pair pair;
    uint8_t priority = 100;
    translation::Options translation;
  };
  // `channel` and `clock` outlive it.
  static absl::StatusOr<std::unique_ptr<GatewayPort>> Create(const Options& options, ipoib::Channel* channel,
                                                             const Clock* clock);
  ~GatewayPort() override;

  // Port.
  const std::string& name() const override { return options_.name; }
  int receive_fd() const override { return epoll_.get(); }
  size_t Receive(BufferPool* pool, absl::Span<Frame> out, PortReceiveCounts* counts) noexcept override;
  DropReason Transmit(const Frame& frame, bool strip_tag) noexcept override;
  size_t Flush(DropReason* reason) noexcept override;
  MacAddr mac() const override { return {}; }

  // `on_change` hears, on the worker, that there is something new to save; not again before Saved. Before the worker runs.
  void OnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }
  // On the worker: what there was has been taken.
  void Saved() { told_of_change_ = false; }

  // On the worker: whether the VES has its flood group. Not at first; a gateway between one side and nothing stands back.
  void SetVesUp(bool up);

  // What a task may use, on the worker.
  struct Parts {
    translation::Translator* translator;
    const Election* election;
    const char* why_down;  // the election is; else empty
    uint64_t pending_dropped;
    uint64_t forged_hellos;
  };
  using Task = std::function<void(const Parts&)>;
  // Runs `task` on the worker, some time.
  void Post(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, and waits for it, until `deadline` of the time of day. kDeadlineExceeded, and the task is not run any more, if
  // the worker has no time for it.
  absl::Status Ask(Task task, absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  // While no worker runs: runs it at once.
  void RunWithoutWorker(const Task& task) { task(parts()); }

 private:
  // Where frames go while the switch asks for them.
  struct Receiving {
    BufferPool* pool = nullptr;  // null: it does not
    absl::Span<Frame> out;
    size_t count = 0;
  };

  GatewayPort(const Options& options, ipoib::Channel* channel, const Clock* clock);

  absl::Status Watch();
  // translation::Sink
  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype, absl::Span<const uint8_t> payload) override;
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) override;
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpoibGroup& group, bool beyond_link) override;
  void Listen(const IpoibGroup& group) override;
  void Unlisten(const IpoibGroup& group) override;
  // ipoib::Listener
  void OnPacket(const ipoib::Packet& packet) override;
  void OnLinkState() override;

  void OnHello(const ipoib::Packet& packet);
  uint8_t* Room(size_t size);
  void HandPending();
  void RunTasks() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunDue();
  const char* WhyDown() const;
  void RestartElection();
  void RunElection();
  void NoteElection();
  void ForgetSilentGateways();
  void TellOthers();
  absl::Time NextForget() const;
  absl::Time NextDeadline() const;
  void EndTurn();
  void SetTimer();
  void Wake() const;
  Parts parts() { return {&translator_, &election_, WhyDown(), pending_dropped_, forged_hellos_}; }

  const Options options_;
  ipoib::Channel* const channel_;
  const Clock* const clock_;
  UniqueFd epoll_;
  UniqueFd wake_;   // an eventfd
  UniqueFd timer_;  // a timerfd
  absl::Time timer_at_ = absl::InfiniteFuture();
  translation::Translator translator_;
  Election election_;
  bool ves_up_ = false;
  bool was_active_ = false;
  translation::AgedTable<IpoibAddress, std::monostate> others_;  // gateways of the same pair
  absl::optional<ipoib::LinkState> link_;
  Receiving receiving_;
  std::vector<uint8_t> transmitted_;          // the frame that the switch transmits
  std::deque<std::vector<uint8_t>> pending_;  // frames for which there was no room, or nobody who asked
  uint64_t pending_dropped_ = 0;
  uint64_t forged_hellos_ = 0;
  std::function<void()> on_change_ = [] {};
  uint64_t changes_ = 0;  // of the translator, when last looked at
  bool told_of_change_ = false;

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAY_PORT_H_
