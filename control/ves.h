// Ves: one VES on this agent. Owns what a VES needs (FDB, directory, queue pair, forwarder) and ties its data path to control:
// membership in the flood group, punts, ageing, what the subnet says.
//
// A queue pair is made for an index of the P_Key table, and the forwarder for a GID and a membership. When one of them changes,
// or the queue pair is lost, the VES is rebuilt in place: interfaces, FDB, paths and frames that wait stay. Without a P_Key it
// has no queue pair, its interfaces have no carrier, and it waits for the P_Key to come (back): a subnet manager may be slower
// to boot than this host.
//
// Control thread, except that the forwarder belongs to its worker once that runs.
#ifndef EOIB_CONTROL_VES_H_
#define EOIB_CONTROL_VES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "control/config.h"
#include "control/fabric_port.h"
#include "control/group_membership.h"
#include "control/log.h"
#include "control/partition_member.h"
#include "control/partition_queue_pair.h"
#include "control/resolver.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/forwarder.h"

namespace eoib {

// A VES's MTU counts from the destination MAC on; a netdev's counts what is behind the Ethernet header, and one tag has to fit.
inline constexpr int kNetdevOverhead = kEthernetHeaderSize + kVlanTagSize;

// A local vPort as control knows it.
struct VPort {
  VPortConfig config;
  std::shared_ptr<void> companion;  // what `port` works with, if there is anything: goes after it
  std::unique_ptr<Port> port;
  uint32_t index = 0;  // in the forwarder
  std::function<absl::Status(int mtu)> set_mtu;
  std::function<absl::Status(bool up)> set_link;
};

// What a flood group is created with, if nobody has; else its record says. On an Ethernet link layer it is the VES's in any
// case, and what keeps VESes apart.
inline QKey QKeyOf(const VesConfig& config) { return config.qkey.value_or(QKey(0x8000'0000u | config.pkey.Full().value())); }

class Ves final : public PartitionMember {
 public:
  // What all VESes of an agent share; outlives them.
  struct Shared {
    FabricPort::Tools fabric;
    BufferPool* pool;
    std::function<void()> on_lost = [] {};  // a VES's worker found that its queue pair is lost: NeedsRebuild
    FdbBudget* fdb_budget = nullptr;        // of the host; null: each VES has its own limit only
  };

  // Makes the queue pair in the partition of `config`, if the port is a member of it; else Rebuild does when it is.
  static absl::StatusOr<std::unique_ptr<Ves>> Create(const VesConfig& config, const Shared& shared);
  ~Ves() override;
  Ves(const Ves&) = delete;
  Ves& operator=(const Ves&) = delete;

  // Before Start.
  absl::Status AddVPort(VPort vport);

  // PartitionMember.
  void Start() override;
  void Stop(std::function<void()> done) override;
  void Run() override;
  absl::Time NextDeadline() const override;
  void Refresh(RefreshDepth depth) override;
  void OnPortDown(absl::string_view why) override;
  void OnNotice(SmTrap trap, const Gid& gid) override;
  void NoteLoss(const ibv_async_event& event) override;
  bool NeedsRebuild() const override;
  bool has_queue_pair() const override { return queue_pair_.get() != nullptr; }
  absl::Status Rebuild() override;

  // Readable when the forwarder punted something; then RunPunts, which may find that the VES NeedsRebuild.
  int punt_fd() const { return punts_.fd(); }
  void RunPunts();
  // Whether the HCA or the forwarder has said that the queue pair is lost, and Rebuild has not yet been tried.
  bool lost() const { return queue_pair_.lost(); }

  const VesConfig& config() const { return config_; }
  const std::vector<VPort>& vports() const { return vports_; }
  Forwarder* forwarder() { return forwarder_.get(); }
  Fdb* fdb() { return &fdb_; }
  const Fdb& fdb() const { return fdb_; }
  const Clock& clock() const { return *shared_.fabric.clock; }
  VPortId IdOf(const VPort& vport) const { return forwarder_->ports()[vport.index].vport; }
  VPortDirectory* directory() { return &directory_; }

  // Text for the operator.
  std::string Show() const;
  std::string Behind(VPortId vport) const;  // "vPort web1", "GID fe80::1 QPN 0x48"
  std::string Stats() const;
  std::string Drops() const;

 private:
  Ves(const VesConfig& config, const Shared& shared, const Gid& gid);

  Resolver::Source PathSource() const;
  void OnPunt(const Punt& punt);
  void TakeDown(absl::string_view why);
  void NoteFailure();
  void FlushGone();
  void ReclaimVPorts();
  absl::flat_hash_set<Gid> HeardSince(const absl::flat_hash_map<Gid, absl::Time>& ports,
                                      const absl::flat_hash_map<VPortId, Gid>& behind, absl::Time now) const;

  void OnGroup(const absl::optional<GroupMembership::Joined>& joined);
  void AdoptMtu(int group_mtu_bytes);
  void SetCarrier(bool up);
  void StartAnnouncing();
  void Announce();
  absl::optional<Vid> AnnouncedIn(const VlanPolicy& vlan) const;
  void RetryHeld();
  std::string Membership() const;
  void OnDamped(const Punt& punt);
  std::string Consequence(const Punt& punt) const;
  std::string ShowVPort(const VPort& vport) const;

  const VesConfig config_;
  const Shared shared_;
  bool announced_ = false;        // the interfaces' MACs, since the group was joined anew
  absl::optional<bool> carrier_;  // of the interfaces, if all have it
  int adopted_mtu_ = 0;           // the group's, when it was last put into effect
  Fdb fdb_;
  VPortDirectory directory_;
  PuntQueue punts_;
  InjectQueue injected_;
  LogLimiter move_log_, damped_log_;
  uint64_t damped_logged_ = 0;     // MACs that moved too often, when that was last logged
  PartitionQueuePair queue_pair_;  // none: taken down
  std::vector<VPort> vports_;
  std::unique_ptr<Forwarder> forwarder_;  // before vports_ in destruction: it refers to their ports
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<GroupMembership> group_;
  absl::Time next_age_, next_reclaim_;
  int announcements_ = 0;  // of the series under way
  absl::Time next_announcement_ = absl::InfiniteFuture();
  absl::flat_hash_map<Gid, absl::Time> gone_;  // ports out of service, and since when
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_H_
