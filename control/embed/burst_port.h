// BurstPort: a vPort of an embedding program. The program's threads take and give its frames, by
// bursts, and run the forwarders meanwhile.
#ifndef EOIB_CONTROL_EMBED_BURST_PORT_H_
#define EOIB_CONTROL_EMBED_BURST_PORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "control/embed/burst_queue.h"
#include "control/embed/lane_port.h"
#include "control/vport/vport.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/eoib.h"
#include "vswitch/port/port.h"

namespace eoib {

// Control calls Create, MakeQueue, SetMtu, SetLink and OnFailure. Any thread calls the rest, as
// eoib.h allows.
class BurstPort final : public VPortInterface {
 public:
  using Options = BurstOptions;
  static constexpr size_t kBacklog = FrameRing::kCapacity;  // frames

  static absl::StatusOr<std::unique_ptr<BurstPort>> Create(const Options& options);

  // The port for the next queue of the VES. This object outlives it.
  std::unique_ptr<Port> MakeQueue() override;
  absl::Status SetMtu(int mtu) override;
  absl::Status SetLink(bool up) override;
  // The switch has failed. The program is woken also if the link was down before.
  void OnFailure();

  // See eoib.h. `queue` is below queues().
  size_t queues() const { return queues_.size(); }
  size_t ReceiveBurst(absl::Span<eoib_frame> frames, size_t queue = 0) {
    return queues_[queue]->ReceiveBurst(frames);
  }
  size_t SendBurst(absl::Span<const eoib_frame> frames, size_t queue = 0) {
    return queues_[queue]->SendBurst(frames);
  }
  bool Arm(size_t queue = 0) { return queues_[queue]->Arm(); }
  int wait_fd(size_t queue = 0) const { return queues_[queue]->wait_fd(); }
  eoib_state State();
  int state_event_fd() const { return state_event_.get(); }
  eoib_stats Stats() const;
  // Calls `visit` with name and value of each counter of the VES.
  void VisitCounters(absl::FunctionRef<void(const char* name, uint64_t value)> visit) const;

 private:
  explicit BurstPort(const Options& options) : options_(options) {}
  void ChangeState();
  void AddCounters(PortCounters* port, ForwarderCounters* forwarder) const;

  const Options options_;
  UniqueFd state_event_;  // an eventfd
  std::vector<std::unique_ptr<BurstQueue>> queues_;
  size_t made_ = 0;  // lane ports

  std::atomic<bool> carrier_{false};
  std::atomic<uint32_t> mtu_{0};
  std::atomic<uint64_t> carrier_resets_{0}, changes_{0};
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_BURST_PORT_H_
