// Agent: what eoibd is, without its process: one HCA port, the VESes on it, their vPorts, one worker, and the commands.
//
// Threads. The control thread (whoever runs the EventLoop) calls everything. The worker is inside, from Start to Stop.
#ifndef EOIB_CONTROL_AGENT_H_
#define EOIB_CONTROL_AGENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/command_registry.h"
#include "control/config.h"
#include "control/event_loop.h"
#include "control/refresh_depth.h"
#include "control/state_dir.h"
#include "control/subscriptions.h"
#include "control/ves.h"
#include "vswitch/fabric/address_handles.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/handle_maker.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/worker.h"

namespace eoib {

class Agent {
 public:
  // Makes the Ethernet interface of a vPort, with that MAC and MTU. `config.type` says which kind.
  using PortFactory = std::function<absl::StatusOr<VPort>(const VPortConfig& config, MacAddr mac, int mtu)>;

  // Opens everything that `config` names, or nothing: a failure leaves no interface behind. What a subnet may still have to
  // bring (a link, a subnet manager, a P_Key) is no failure: VESes wait for it without carrier. `state`, `loop` and `clock`
  // outlive the agent.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(const AgentConfig& config, std::unique_ptr<Hca> hca, StateDir* state,
                                                       const PortFactory& make_port, EventLoop* loop, const Clock* clock);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Starts the worker and joins the groups.
  void Start();
  // `on_fatal` hears, from the loop and once, that the HCA is lost: only an agent made anew can go on. Before Start.
  void OnFatal(std::function<void(const std::string& why)> on_fatal) { on_fatal_ = std::move(on_fatal); }
  // Stops forwarding and leaves the groups; `done` is called, from the loop, when the SA has been told.
  void Stop(std::function<void()> done);

  // show, fdb/show, stats, drops, hca, capture/start, capture/stop. The registry must not be asked after the agent is gone.
  void RegisterCommands(CommandRegistry* registry);

  const std::vector<std::unique_ptr<Ves>>& veses() const { return veses_; }

 private:
  Agent(std::unique_ptr<Hca> hca, EventLoop* loop, const Clock* clock);

  absl::Status Open(const AgentConfig& config, StateDir* state, const PortFactory& make_port);
  absl::Status CheckLinkLayer(const AgentConfig& config) const;
  absl::Status OpenVPort(const VPortConfig& config, StateDir* state, const PortFactory& make_port);
  absl::Status WatchDescriptors();
  void RunAsyncEvents();
  void LoseHca(const std::string& why);
  void RebuildSoon();
  void RetryRebuild();
  void WaitForPKeys();
  RefreshDepth Note(const ibv_async_event& event);
  void Refresh(RefreshDepth depth);
  void RebuildVeses();
  absl::Status Rebuild(Ves* ves);
  void OnNotice(const Notice& notice);
  Ves* FindVes(absl::string_view name) const;
  std::string Show() const;
  std::string ShowPort() const;
  std::string HcaCounters() const;
  // Runs `text` for the VES that the first argument names, or for all.
  absl::StatusOr<std::string> ForVeses(const CommandRegistry::Arguments& arguments,
                                       const std::function<std::string(const Ves&)>& text) const;

  EventLoop* const loop_;
  const Clock* const clock_;
  std::unique_ptr<Hca> hca_;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<AddressHandles> handles_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<HandleMaker> maker_;            // null on InfiniBand
  std::unique_ptr<SaClient> sa_;                  // null without an SA
  std::unique_ptr<Subscriptions> subscriptions_;  // null without an SA
  std::vector<std::unique_ptr<Ves>> veses_;
  std::unique_ptr<Worker> worker_;
  bool running_ = false;                                  // between Start and Stop
  absl::Time rebuild_again_at_ = absl::InfiniteFuture();  // a rebuild failed, or there is no P_Key to make one for
  absl::Time rebuilt_at_ = absl::InfinitePast();
  std::string lost_;  // why the HCA is
  std::vector<int> watched_;
  std::function<void(const std::string&)> on_fatal_ = [](const std::string&) {};
  std::vector<EventLoop::TimerId> timers_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_H_
