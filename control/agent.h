// Agent: the switch on one host: one HCA port, the VESes on it, their vPorts, one worker, and the operator's commands.
// eoibd_main.cc is the process around it.
//
// Threads: the control thread, which runs the EventLoop, calls everything. The agent runs its worker thread from Start to
// Stop.
#ifndef EOIB_CONTROL_AGENT_H_
#define EOIB_CONTROL_AGENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/config.h"
#include "control/daemon/command_registry.h"
#include "control/daemon/event_loop.h"
#include "control/fabric_port.h"
#include "control/state_dir.h"
#include "control/ves.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/worker.h"

namespace eoib {

class Agent final {
 public:
  // Makes the Ethernet interface of a vPort, with that MAC and MTU; `config.type` says which kind. A port that has queue pairs
  // of its own adds itself to `fabric`, which outlives it.
  using PortFactory = std::function<absl::StatusOr<VPort>(const VPortConfig& config, MacAddr mac, int mtu, FabricPort* fabric)>;

  // Opens everything that `config` names, or nothing: a failure leaves no interface behind. A missing link, subnet manager or
  // P_Key is no failure: the VES waits for it without carrier. `state`, `loop` and `clock` outlive the agent.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(const AgentConfig& config, std::unique_ptr<Hca> hca, StateDir* state,
                                                       const PortFactory& make_port, EventLoop* loop, const Clock* clock);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Starts the worker and joins the groups.
  void Start();
  // The loop calls `on_fatal` once when the HCA is lost; only a new agent can go on. Call before Start.
  void OnFatal(std::function<void(const std::string& why)> on_fatal) { fabric_->OnFatal(std::move(on_fatal)); }
  // Stops forwarding and leaves the groups. The loop calls `done` when the SA has answered or given up.
  void Stop(std::function<void()> done);

  // show, fdb/..., peers, vport/show, stats, drops, hca, capture/start, capture/stop. The registry must not run them after the
  // agent is gone.
  void RegisterCommands(CommandRegistry* registry);

 private:
  explicit Agent(EventLoop* loop) : loop_(loop) {}

  absl::Status Open(const AgentConfig& config, StateDir* state, const PortFactory& make_port);
  static absl::Status CheckLinkLayer(const AgentConfig& config, Hca* hca);
  absl::Status OpenVPort(const VPortConfig& config, StateDir* state, const PortFactory& make_port);
  absl::Status MakeWorker();
  absl::Status WatchEndpointOf(const FabricPortClient* client);
  absl::StatusOr<std::vector<Ves*>> FindVeses(const std::string& name) const;
  std::string Show() const;

  EventLoop* const loop_;
  std::unique_ptr<FabricPort> fabric_;
  std::unique_ptr<FdbBudget> fdb_budget_;  // null without a limit for the host
  std::unique_ptr<BufferPool> pool_;
  std::vector<std::unique_ptr<Ves>> veses_;
  std::unique_ptr<Worker> worker_;
  std::vector<int> watched_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_H_
