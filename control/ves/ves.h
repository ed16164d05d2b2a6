// Ves: one VES on this agent. It owns FDB, directory, queues and vPorts, and connects the data path
// to control: membership in the flood group, punts, ageing, traps from the subnet.
//
// The first queue is the one that receives from the flood group, and that sends and receives
// messages. Peers send known unicast to any queue, as the hash of the flow says.
//
// FabricPort rebuilds it in place when a queue pair must be replaced: interfaces, FDB, paths and
// held frames stay. While its P_Key is not in the port's table, it has no queue pair and its
// interfaces have no carrier.
//
// Threads: the control thread calls everything. While a worker runs, the forwarder of its queue
// belongs to it, with buffers and queue pair; control uses the forwarder's atomics and counters,
// and the queues between the two. The FDB and the directory are shared, and lock themselves.
//
// Invariants: there is a first queue from Create on. Before a vPort's index is free again, control
// has handled all punts, because they may name the vPort. Users of the queues are destroyed before
// them, and the queues before the vPorts, whose ports they use.
#ifndef EOIB_CONTROL_VES_VES_H_
#define EOIB_CONTROL_VES_VES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "control/config/config.h"
#include "control/subnet/fabric_port.h"
#include "control/subnet/fabric_port_client.h"
#include "control/subnet/group_membership.h"
#include "control/subnet/path_resolver.h"
#include "control/subnet/service_discovery.h"
#include "control/ves/loop_reports.h"
#include "control/ves/out_of_service.h"
#include "control/ves/rarp_announcer.h"
#include "control/ves/ves_journal.h"
#include "control/ves/ves_protocol.h"
#include "control/ves/ves_queues.h"
#include "control/ves/ves_vports.h"
#include "control/vport/vport.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {

// The Q_Key to create the flood group with; the record of an existing group overrides it. On an
// Ethernet link layer it always applies, and isolates the VESes from each other.
inline QKey QKeyOf(const VesConfig& config) {
  return config.qkey.value_or(QKey(0x8000'0000u | config.pkey.Full().value()));
}

class Ves final : public FabricPortClient {
 public:
  // Shared by all VESes of an agent, and outlives them.
  struct Context {
    FabricPort::Resources fabric;
    // The worker found that the queue pair has failed, so NeedsRebuild.
    std::function<void()> on_lost = [] {};
    size_t workers = 1;  // of the agent; each runs a queue of the VES
    AgentIdentity identity = {};
    std::string host = {};  // its name, for the operators of other hosts
    // Of this agent's state in the VES, see OwnAgent.
    std::shared_ptr<uint32_t> last_version = nullptr;
    // An agent at `peer` has this agent's id. TakeIdentity follows.
    std::function<void(const PeerAddress& peer)> on_id_taken = [](const PeerAddress&) {};
  };

  // Makes the queue pair if the port is in the partition of `config`; otherwise Rebuild makes it
  // later.
  static absl::StatusOr<std::unique_ptr<Ves>> Create(const VesConfig& config,
                                                     const Context& context);
  ~Ves() override;
  Ves(const Ves&) = delete;
  Ves& operator=(const Ves&) = delete;

  // While the worker does not run. FollowVPorts and SetUpVPorts follow. An error leaves the VES as
  // it was, and *vport with the caller.
  absl::Status AddVPort(VPort* vport);
  // Takes over the keys of `config` that change in place (ConfigDiff), while the worker does not
  // run. SetUpVPorts follows.
  void ChangeVPort(const VPortConfig& config);
  void RenameVPort(const std::string& before, const std::string& after);
  // Joins the group if there is a vPort, and leaves it if there is none. Call it once after several
  // changes, so that a vPort that is replaced leaves no gap.
  void FollowVPorts();
  // Gives the interfaces of added vPorts the MTU and carrier of the others, and announces their
  // MACs. The worker may run.
  void SetUpVPorts(absl::FunctionRef<bool(const VPort& vport)> concerned);
  // The interface of a vPort was made again, or could not be (`trouble`).
  void NoteRemade(uint32_t index, const std::string& trouble);
  // What VPort::check of a vPort has returned.
  void NoteTrouble(uint32_t index, const std::string& trouble);
  // While the worker does not run. Flushes what is behind the vPort, tells the other agents, and
  // returns it, with its interface.
  VPort RemoveVPort(const std::string& name);
  // The number of queues that the VES is to have. It does not give queues up.
  size_t WantedQueues() const;
  // Adds a queue, while the worker does not run. All vPorts have MakeQueue. After an error there
  // is none more.
  absl::Status AddQueue();
  // Takes over the keys of `config` that change in place (ConfigDiff), while the worker does not
  // run.
  void Change(const VesConfig& config);

  // FabricPortClient.
  void Start() override;
  void Stop(std::function<void()> done) override;
  // The agent has another identity than in the context from now on.
  void TakeIdentity(const AgentIdentity& identity) { protocol_->TakeIdentity(identity); }
  // Tells the other agents that this one stops. The worker must run once more.
  void Leave();
  // A message of a vPort's speaker to all other agents. Lost if the queue is full.
  void SendSpeech(absl::Span<const uint8_t> payload);
  void Run() override;
  absl::Time NextDeadline() const override;
  void Refresh(RefreshDepth depth) override;
  void OnPortDown(absl::string_view why) override;
  void OnNotice(SmTrap trap, const Gid& gid) override;
  void NoteLoss(const ibv_async_event& event) override { queues_.NoteLoss(event); }
  bool NeedsRebuild() const override { return queues_.NeedReplacement(); }
  bool has_queue_pair() const override { return queue_pair().get() != nullptr; }
  absl::Status Rebuild() override;

  size_t workers() const { return context_.workers; }
  // Handles punts and messages of a queue for a limited time; call it when its `punts` are
  // readable. It may find that the VES NeedsRebuild. Returns whether there may be more.
  bool RunPunts(size_t queue);

  const VesConfig& config() const { return config_; }
  const VesVPorts& vports() const { return vports_; }
  const VesQueues& queues() const { return queues_; }
  Forwarder* forwarder(size_t queue = 0) { return queues_[queue].forwarder.get(); }
  const Forwarder& forwarder() const { return *queues_.first().forwarder; }
  // The name of the worker that reads a vPort's interface; empty if the agent has one worker.
  std::string ReaderOf(const VPort& vport) const;
  const GroupMembership& group() const { return *group_; }
  const PartitionQueuePair& queue_pair() const { return queues_.first().queue_pair; }
  // The P_Key is checked on InfiniBand only.
  bool checks_pkey() const { return context_.fabric.sa != nullptr; }
  Fdb* fdb() { return &fdb_; }
  const Fdb& fdb() const { return fdb_; }
  const Clock& clock() const { return *context_.fabric.clock; }
  VPortDirectory* directory() { return &directory_; }
  const VPortDirectory& directory() const { return directory_; }
  VesProtocol* protocol() { return protocol_.get(); }
  const VesProtocol& protocol() const { return *protocol_; }
  // Null if the VES floods through its group.
  const ServiceDiscovery* discovery() const { return discovery_.get(); }

  const PathResolver& resolver() const { return *resolver_; }

  const VesJournal& journal() const { return journal_; }

  // The place of a vPort, for the operator: "vPort web1", "GID fe80::1 QPN 0x48". Behind adds the
  // host's name, if it is known: "GID fe80::1 QPN 0x48 (h2)".
  std::string Place(VPortId vport) const;
  std::string Behind(VPortId vport) const;
  // This host's name, as other hosts' operators see it.
  const std::string& host() const { return context_.host; }

 private:
  Ves(const VesConfig& config, const Context& context, const HcaPortInfo& port);

  absl::Status ReplaceQueuePair(VesQueue* queue);
  bool HandleNext(VesQueue* queue);
  static Forwarder::Options ForwardingOf(const VesConfig& config, const Context& context,
                                         const HcaPortInfo& port, FloodList* floods);

  bool replicates() const { return config_.flood == FloodMode::kReplicate; }
  void MakeGroup(const Mgid& mgid);
  void OnPunt(const Punt& punt);
  void OnMessage(const ControlMessage& message, const PeerAddress& to);
  void TakeDown(absl::string_view why);
  void ReclaimVPorts();

  void OnGroup(const absl::optional<GroupMembership::Joined>& joined);
  void AnnounceAddress();
  void LogGroup(const absl::optional<GroupMembership::Joined>& joined) const;
  absl::Status Check(const VPort& vport) const;
  void SetPolicy(const VPort& vport, VPortId id);
  Fdb::Options FdbOptionsOf(const VesConfig& config) const;
  void AnnounceMacs();

  VesConfig config_;
  const Context context_;
  const Gid gid_;
  bool running_ = false;    // between Start and Stop
  bool is_used_ = false;    // it has joined the group for its vPorts, or joins
  bool announced_ = false;  // the interfaces' MACs, since the last join or renewal
  int adopted_mtu_ = 0;     // the group's MTU that the interfaces were last set to
  Fdb fdb_;
  VPortDirectory directory_;
  VesJournal journal_;
  LoopReports loops_;
  FloodList floods_;  // used if the VES replicates
  const Forwarder::Options forwarding_;
  ControlMessage message_;  // the one that is being handled
  VesVPorts vports_;
  VesQueues queues_;  // destroyed before vports_: the forwarders refer to their ports
  std::unique_ptr<RarpAnnouncer> announcer_;
  std::unique_ptr<PathResolver> resolver_;
  std::unique_ptr<VesProtocol> protocol_;
  std::unique_ptr<OutOfService> out_of_service_;
  std::unique_ptr<ServiceDiscovery> discovery_;
  std::unique_ptr<GroupMembership> group_;
  absl::Time next_age_, next_reclaim_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VES_H_
