// PortTable: the ports of a software subnet and what the subnet manager assigns to them: LIDs,
// GUIDs, P_Keys and ranges of QPNs.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_TABLE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/fabric/softhca/subnet/partition_table.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

struct PortSession;

// A port, from the first registration of its name on.
struct SubnetPort : ManagedPort {
  bool link_up = true;
  std::shared_ptr<PortSession> owner;             // null: no process owns the port
  std::set<std::shared_ptr<PortSession>> guests;  // processes that use it without owning it
  std::shared_ptr<const CountersPage> counters;   // null: it has none
  std::vector<FaultRule> faults;                  // the last ones sent to it
  uint64_t registrations = 0, mads = 0, rings_made = 0, rings_refused = 0;

  SoftPortCounters ReadCounters() const {
    return counters == nullptr ? SoftPortCounters() : counters->Load();
  }
};

// Not thread-safe: the Subnet calls it under its mutex. MAD agents see active ports only, through
// ManagedPorts.
class PortTable final : public ManagedPorts {
 public:
  static constexpr uint32_t kQpnsPerPort = 4096;

  // New ports have `defaults`: GID prefix, MTU and rate. `lids` outlives the table; null: LIDs are
  // not kept.
  PortTable(const PortConfig& defaults, const std::vector<Partition>& partitions, LidFile* lids,
            uint64_t seed);

  const ManagedPort* FindByGid(const Gid& gid) const override;
  const ManagedPort* FindByLid(Lid lid) const override;
  std::vector<const ManagedPort*> Active() const override;
  const ManagedSwitch& Switch() const override { return switch_; }

  // Active or not; null if there is no such port.
  SubnetPort* Find(const std::string& name) const;
  SubnetPort* AtLid(Lid lid) const;
  // A port with this GID exists.
  SubnetPort* AtGid(const Gid& gid) const { return by_gid_.at(gid); }
  const std::map<std::string, std::unique_ptr<SubnetPort>>& by_name() const { return ports_; }
  const std::map<Lid, SubnetPort*>& by_lid() const { return by_lid_; }

  // Makes a port, with `wanted` as its LID if it is free. Null if no LID is left.
  SubnetPort* Add(const std::string& name, Lid wanted);
  // kInvalidArgument, or kAlreadyExists if another port or the subnet manager has the LID.
  absl::Status SetLid(SubnetPort* port, Lid lid);
  // Gives the port `wanted` if it is free, otherwise a range at random, but not its former one.
  absl::Status AssignQpns(SubnetPort* port, const QpnRange& wanted);
  // kAlreadyExists if a port has the LID.
  absl::Status MoveSm(Lid lid);
  void set_runs_sm(bool runs) { switch_.runs_sm = runs; }
  PartitionTable* partitions() { return &partitions_; }
  const PartitionTable* partitions() const { return &partitions_; }
  // Returns true if the port's P_Key table changed.
  bool UpdatePKeys(SubnetPort* port) const {
    return partitions_.Update(port->name, &port->config.pkeys);
  }

 private:
  SubnetPort* Make(const std::string& name, const KeptPort& kept);
  void Keep(const SubnetPort& port);
  uint8_t FreeSwitchPort() const;
  bool LidIsFree(Lid lid) const;
  Lid AllocateLid(Lid wanted) const;
  Guid MakeGuid(const std::string& name) const;
  bool QpnsAreFree(uint32_t first) const;

  const PortConfig defaults_;
  LidFile* const lids_;
  std::mt19937_64 random_;
  PartitionTable partitions_;
  ManagedSwitch switch_;
  // By name; includes ports of the LID file.
  std::map<std::string, std::unique_ptr<SubnetPort>> ports_;
  std::map<Lid, SubnetPort*> by_lid_;
  std::map<Gid, SubnetPort*> by_gid_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_TABLE_H_
