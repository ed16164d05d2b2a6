// PolledPath: the data path of an embedding program, which runs the forwarders on its own threads
// (burst_queue.h). Each forwarder belongs to one thread at a time, which holds the mutex of its
// lane; while the data path is stopped, that is the control thread.
//
// The control thread runs a forwarder itself where the program does not: it sends what control has
// queued, and handles what the fabric brings while the program does not call, so that other agents
// get their answers.
#ifndef EOIB_CONTROL_EMBED_POLLED_PATH_H_
#define EOIB_CONTROL_EMBED_POLLED_PATH_H_

#include <memory>
#include <vector>

#include "control/embed/lane_port.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/data_path.h"

namespace eoib {

class PolledPath final : public DataPath {
 public:
  // A program that has not called for this time is not polling.
  static constexpr absl::Duration kPatience = absl::Milliseconds(20);

  // All ports of the forwarders are LanePorts. `loop` outlives the object.
  explicit PolledPath(EventLoop* loop);
  ~PolledPath() override;

  absl::Status Add(Forwarder* forwarder, size_t queue) override;
  void Remove(const Forwarder* forwarder) override;
  absl::Status AddPort(absl::Span<Forwarder* const> queues, uint32_t port) override;
  void RemovePort(absl::Span<Forwarder* const> queues, uint32_t port) override;
  absl::Status WatchEndpointOf(const Forwarder* forwarder) override;
  void Start() override;
  void Stop(absl::Duration backlog) override;
  bool MakesProgress() override { return true; }

  // After a failed check: no thread works with a forwarder again, and none waits for one.
  void Abandon();

 private:
  using Lanes = std::vector<std::shared_ptr<Lane>>;

  Lanes::iterator Find(const Forwarder* forwarder);
  absl::Status AttachPort(const Forwarder& forwarder, uint32_t port);
  static void DetachPorts(const Forwarder& forwarder);
  void RunInjected(Lane* lane);
  static void ClearStopped(Lane* lane);
  void RunIdle();

  EventLoop* const loop_;
  Lanes lanes_;
  bool stopped_ = true;  // this thread holds the mutexes of all lanes
  absl::Time look_at_;
  EventLoop::TimerId timer_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_POLLED_PATH_H_
