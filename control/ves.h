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
#include "control/flood_group.h"
#include "control/log.h"
#include "control/refresh_depth.h"
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
  std::unique_ptr<Port> port;
  uint32_t index = 0;  // in the forwarder
  std::function<absl::Status(int mtu)> set_mtu;
  std::function<absl::Status(bool up)> set_link;
};

// What a flood group is created with, if nobody has; else its record says. On an Ethernet link layer it is the VES's in any
// case, and what keeps VESes apart.
inline QKey QKeyOf(const VesConfig& config) { return config.qkey.value_or(QKey(0x8000'0000u | config.pkey.Full().value())); }

class Ves {
 public:
  // What all VESes of an agent share; outlives them.
  struct Shared {
    Hca* hca;
    ibv_pd* pd;
    BufferPool* pool;
    AddressHandles* handles;
    SaClient* sa;        // null on an Ethernet link layer
    HandleMaker* maker;  // null on InfiniBand
    const Clock* clock;
    std::function<void()> on_lost = [] {};  // a VES's worker found that its queue pair is lost: NeedsRebuild
  };

  // Makes the queue pair in the partition of `config`, if the port is a member of it; else Rebuild does when it is.
  static absl::StatusOr<std::unique_ptr<Ves>> Create(const VesConfig& config, const Shared& shared);
  ~Ves();
  Ves(const Ves&) = delete;
  Ves& operator=(const Ves&) = delete;

  // Before Start.
  absl::Status AddVPort(VPort vport);
  void Start();
  // Leaves the flood group; `done` is called when the SA knows or does not answer. The worker must have stopped.
  void Stop(std::function<void()> done);

  // Readable when the forwarder punted something; then RunPunts, which may find that the VES NeedsRebuild.
  int punt_fd() const { return punts_.fd(); }
  void RunPunts();
  // Periodic work, at NextDeadline at the latest.
  void Run();
  absl::Time NextDeadline() const;

  // What happened to the HCA port. Of a refresh this is the part that the worker need not stop for.
  void Refresh(RefreshDepth depth);
  void OnPortDown(absl::string_view why);
  // Whether the event takes our queue pair away; NeedsRebuild says so from then on.
  bool NoteLoss(const ibv_async_event& event);
  // Whether the HCA or the forwarder has said that the queue pair is lost, and Rebuild has not yet been tried.
  bool lost() const { return lost_; }
  // Whether the queue pair is lost, or is not the one for the P_Key table and GID that the port has now.
  bool NeedsRebuild() const;
  bool has_queue_pair() const { return endpoint_ != nullptr; }
  // While the worker is stopped: puts a queue pair in place that is, or takes it away if the port is not in the partition. An
  // error leaves the VES without one, as well. Refresh(kHeavy) follows.
  absl::Status Rebuild();
  // The subnet reports trap `trap` about `gid`.
  void OnNotice(SmTrap trap, const Gid& gid);

  const VesConfig& config() const { return config_; }
  const std::vector<VPort>& vports() const { return vports_; }
  Forwarder* forwarder() { return forwarder_.get(); }
  Fdb* fdb() { return &fdb_; }

  // Text for the operator.
  std::string Show() const;
  std::string ShowFdb() const;
  std::string Stats() const;
  std::string Drops() const;

 private:
  // What a queue pair and its forwarder's place on the fabric are made for.
  struct Identity {
    Hca::PKeyIndex pkey;
    Gid gid;
  };

  Ves(const VesConfig& config, const Shared& shared, const Identity& identity);

  absl::StatusOr<Identity> LookUp() const;
  absl::StatusOr<std::unique_ptr<UdEndpoint>> MakeEndpoint(const Identity& identity) const;
  Resolver::Source PathSource() const;
  void OnPunt(const Punt& punt);
  void TakeDown(absl::string_view why);
  void NoteFailure();
  void FlushGone();
  absl::flat_hash_set<Gid> HeardSince(const absl::flat_hash_map<Gid, absl::Time>& ports,
                                      const absl::flat_hash_map<VPortId, Gid>& behind, absl::Time now) const;

  void OnGroup(const absl::optional<FloodGroup::Joined>& joined);
  void AdoptMtu(int group_mtu_bytes);
  void Announce();
  absl::optional<Vid> AnnouncedIn(const VlanPolicy& vlan) const;
  void RetryHeld();
  std::string Membership() const;
  std::string Behind(VPortId vport) const;
  std::string ShowVPort(const VPort& vport) const;

  const VesConfig config_;
  const Shared shared_;
  Identity identity_;       // of endpoint_, or the last there was
  bool lost_ = false;       // the queue pair is
  bool announced_ = false;  // the interfaces' MACs, since the queue pair or the link came up
  int adopted_mtu_ = 0;     // the group's, when it was last put into effect
  Fdb fdb_;
  VPortDirectory directory_;
  PuntQueue punts_;
  InjectQueue injected_;
  LogLimiter move_log_;
  std::unique_ptr<UdEndpoint> endpoint_;  // null: taken down
  std::vector<VPort> vports_;
  std::unique_ptr<Forwarder> forwarder_;  // before vports_ in destruction: it refers to their ports
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<FloodGroup> group_;
  absl::Time next_age_;
  int announcements_ = 0;  // since the interfaces came up
  absl::Time next_announcement_ = absl::InfiniteFuture();
  absl::flat_hash_map<Gid, absl::Time> gone_;  // ports out of service, and since when
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_H_
