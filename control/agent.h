// Agent: the switch on one host: one HCA port, the VESes on it, their vPorts, the workers, and the
// operator's commands. eoibd_main.cc is the process around it.
//
// Threads: the control thread, which runs the EventLoop, calls everything. The agent runs its
// worker threads from Start to Stop. They are stopped while queues, ports or endpoints come and go
// (WorkerPause); whenever they run, all that they know is valid, also between two steps of a
// change.
//
// Ownership: the agent owns the data path, the VESes and the HCA port, and destroys them in this
// order. A VES calls the agent from inside of its own functions, so the agent answers later, from
// the loop. config() is what exists, also after a change that failed half-way.
#ifndef EOIB_CONTROL_AGENT_H_
#define EOIB_CONTROL_AGENT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "control/config/config.h"
#include "control/config/config_diff.h"
#include "control/state/state_dir.h"
#include "control/subnet/fabric_port.h"
#include "control/ves/ves.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/data_path.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

class WorkerPause;

class Agent final {
 public:
  // Makes the Ethernet interface of a vPort of `ves`, with that MAC and MTU; `config.kind` says
  // which one. A port that has queue pairs of its own adds itself to `fabric`, which outlives it.
  // The agent calls it as long as it lives.
  using PortFactory = std::function<absl::StatusOr<VPort>(
      const VPortConfig& config, MacAddr mac, int mtu, const Ves& ves, FabricPort* fabric)>;

  // Opens everything that `config` names, or nothing: a failure leaves no interface behind. A
  // missing link, subnet manager or P_Key is no failure: the VES waits for it without carrier.
  // `state`, `loop` and `clock` outlive the agent. `state` may be null: then the agent has a new
  // id, the configuration names all MACs, and nothing is saved. `data_path` runs the forwarders;
  // null: `config.workers` of the agent's own. Peers show the name of the host, or HOST/NAME with a
  // `name`, which tells several agents of a host apart. Each queue of a VES runs on a worker of its
  // own.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(
      const AgentConfig& config, std::unique_ptr<Hca> hca, StateDir* state,
      const PortFactory& make_port, EventLoop* loop, const Clock* clock,
      std::unique_ptr<DataPath> data_path = nullptr, absl::string_view name = "");
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Starts the workers and joins the groups.
  void Start();
  // The loop calls `on_fatal` once when the HCA is lost; only a new agent can go on. Call before
  // Start.
  void OnFatal(std::function<void(const std::string& why)> on_fatal) {
    fabric_->OnFatal(std::move(on_fatal));
  }
  // Stops forwarding and leaves the groups. The loop calls `done` when the SA has answered or given
  // up.
  void Stop(std::function<void()> done);

  // Save the learned MACs in the state directory, after Stop, and restore them in the next run,
  // before Start. Not for a gateway: the other one of its pair may have taken over the MACs behind
  // it.
  void SaveMacs() const;
  void RestoreSavedMacs();

  // Brings the agent from its present configuration to `next`, or leaves everything as it was: an
  // error says why. Untouched vPorts go on; ConfigDiff says which are touched. The number of
  // workers stays.
  absl::Status Apply(const AgentConfig& wanted);
  const AgentConfig& config() const { return config_; }
  // The vPort goes on, with its interface, under a new name, which no vPort has.
  // kFailedPrecondition if its interface cannot be renamed.
  absl::Status RenameVPort(const std::string& before, const std::string& after);

  // For the service manager's status line: "VESes joined: 1 of 2; vPorts: 14".
  std::string StatusLine() const;
  // Whether each worker has taken a turn since the last call, which wakes it for the next one.
  bool MakesProgress() { return worker_->MakesProgress(); }

  FabricPort* fabric() const { return fabric_.get(); }
  const std::vector<std::unique_ptr<Ves>>& veses() const { return veses_; }
  const AgentIdentity& identity() const { return identity_; }
  const std::string& host() const { return host_; }  // for peers
  absl::Duration uptime() const { return loop_->Now() - created_; }
  // Threads that forward; 0 if the program does.
  size_t workers() const { return has_workers_ ? config_.workers : 0; }

 private:
  // A change of the configuration on its way.
  struct Change {
    const AgentConfig* next;
    ConfigDiff diff;
    std::vector<std::unique_ptr<Ves>> new_veses;  // the worker does not know them yet
    std::vector<std::unique_ptr<Ves>> old_veses;  // nor these any more
    // Those that are in no VES now: new, changed or removed ones, by name.
    std::map<std::string, VPort> vports;
  };

  Agent(EventLoop* loop, StateDir* state, PortFactory make_port, std::string host)
      : loop_(loop), state_(state), make_port_(std::move(make_port)), host_(std::move(host)) {}

  absl::Status Open();
  static absl::Status CheckLinkLayer(const AgentConfig& config, Hca* hca);
  absl::StatusOr<std::unique_ptr<Ves>> MakeVes(const VesConfig& config);
  absl::StatusOr<VPort> MakeVPort(const VPortConfig& config, const Ves& ves);
  absl::Status Watch(Ves* ves);
  absl::Status WatchQueue(Ves* ves, size_t queue);
  absl::Status AddPort(Ves* ves, uint32_t port);
  void RemovePort(Ves* ves, uint32_t port);
  void Unwatch(Ves* ves);

  absl::Status ChangeTo(const AgentConfig& next);
  void GoBackTo(AgentConfig before);
  AgentConfig PresentConfig() const;
  void RemakeLostInterfaces();
  void OnIdTaken(const PeerAddress& peer);
  void TakeNewIdentity(const PeerAddress& peer);
  absl::Status CheckMacs(const Change& change) const;
  absl::Status Prepare(Change* change);
  absl::Status MakeNewVPorts(Change* change);
  void TellThatTheyLeave(const Change& change);
  absl::Status Commit(Change* change, WorkerPause* pause);
  void Detach(const std::string& name, Change* change);
  void ExchangeVeses(Change* change);
  absl::Status AddQueues(const Change& change);
  absl::Status Attach(const std::string& name, Change* change);
  void SetUpTouched(const ConfigDiff::Names& names);
  void Finish(Change* change);
  Ves* FindVes(const std::string& name) const;  // or null
  // The VES of a vPort; null if there is no such vPort. Sets *vport.
  Ves* FindVPort(const std::string& name, const VPort** vport) const;
  absl::Status WatchEndpointOf(const FabricPortClient* client);

  EventLoop* const loop_;
  StateDir* const state_;
  const PortFactory make_port_;
  const std::string host_;  // for peers
  const absl::Time created_ = loop_->Now();
  AgentConfig config_;
  AgentIdentity identity_;
  // The last version of the vPort protocol in each partition. A VES may go and return.
  std::map<PKey, std::shared_ptr<uint32_t>> last_versions_;
  std::unique_ptr<FabricPort> fabric_;
  std::vector<std::unique_ptr<Ves>> veses_;
  std::unique_ptr<DataPath> worker_;
  bool has_workers_ = false;  // worker_ is Workers
  EventLoop::TimerId lost_timer_ = 0;
  EventLoop::TimerId identity_timer_ = 0;  // 0: no new identity is due
  absl::Time look_for_lost_at_ = absl::InfiniteFuture();
  bool started_ = false;  // between Start and Stop: the worker runs
};

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_H_
