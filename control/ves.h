// Ves: one VES on this agent. Owns what a VES needs (FDB, directory, queue pair, forwarder) and ties its data path to control:
// membership in the flood group, punts, ageing.
//
// Control thread, except that the forwarder belongs to its worker once that runs.
#ifndef EOIB_CONTROL_VES_H_
#define EOIB_CONTROL_VES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "control/config.h"
#include "control/flood_group.h"
#include "control/log.h"
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

class Ves {
 public:
  // What all VESes of an agent share; outlives them.
  struct Shared {
    Hca* hca;
    ibv_pd* pd;
    BufferPool* pool;
    AddressHandles* handles;
    SaClient* sa;  // null without an SA
    const Clock* clock;
  };

  // Makes the queue pair in the partition of `config`. kNotFound if the port is not a member of it.
  static absl::StatusOr<std::unique_ptr<Ves>> Create(const VesConfig& config, const Shared& shared);
  ~Ves();
  Ves(const Ves&) = delete;
  Ves& operator=(const Ves&) = delete;

  // Before Start.
  absl::Status AddVPort(VPort vport);
  void Start();
  // Leaves the flood group; `done` is called when the SA knows or does not answer. The worker must have stopped.
  void Stop(std::function<void()> done);

  // Readable when the forwarder punted something; then RunPunts.
  int punt_fd() const { return punts_.fd(); }
  void RunPunts();
  // Periodic work, at NextDeadline at the latest.
  void Run();
  absl::Time NextDeadline() const;

  // What happened to the HCA port.
  void OnPortUp();  // active again, or the SM asked for reregistration: join again, ask for the paths again
  void OnPortDown();
  // What a queue pair and its forwarder are made for and cannot change: the P_Key's index and membership, the port's GID. Says
  // what is different now; empty if nothing is.
  std::string WhatNeedsARestart() const;

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
  Ves(const VesConfig& config, const Shared& shared, Hca::PKeyIndex pkey, const Gid& gid);

  void OnGroup(const absl::optional<FloodGroup::Joined>& joined);
  void AdoptMtu(int group_mtu_bytes);
  void Announce();
  absl::optional<Vid> AnnouncedIn(const VlanPolicy& vlan) const;
  void RetryHeld();
  std::string Behind(VPortId vport) const;
  std::string ShowVPort(const VPort& vport) const;

  const VesConfig config_;
  const Shared shared_;
  const Hca::PKeyIndex pkey_;
  const Gid gid_;
  int adopted_mtu_ = 0;  // the group's, when it was last put into effect
  Fdb fdb_;
  VPortDirectory directory_;
  PuntQueue punts_;
  InjectQueue injected_;
  LogLimiter move_log_;
  std::unique_ptr<UdEndpoint> endpoint_;
  std::vector<VPort> vports_;
  std::unique_ptr<Forwarder> forwarder_;  // before vports_ in destruction: it refers to their ports
  std::unique_ptr<Resolver> resolver_;
  std::unique_ptr<FloodGroup> group_;
  absl::Time next_age_;
  int announcements_ = 0;  // since the last join
  absl::Time next_announcement_ = absl::InfiniteFuture();
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_H_
