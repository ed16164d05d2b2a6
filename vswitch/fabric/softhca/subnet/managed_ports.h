// ManagedPorts: read access to the active ports and the one switch of a software subnet, for its
// SA, SMP and performance responders; and the attributes that these report (NodeInfo, PortInfo,
// P_Key table).
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MANAGED_PORTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MANAGED_PORTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/ib/smp.h"

namespace eoib::softhca {

struct ManagedPort {
  std::string name;  // its node description
  PortConfig config;
  // Its port on the switch; 0: the switch is full, so it is reached by LID only.
  uint8_t switch_port = 0;
};

// All ports are connected to one switch. The subnet manager runs on its port 0.
struct ManagedSwitch {
  static constexpr uint8_t kPorts = 254;
  static constexpr Lid kDefaultLid{1};  // never a port's, even after the subnet manager has moved

  Guid guid;
  Gid gid;
  Lid lid = kDefaultLid;
  bool runs_sm = true;
};

class ManagedPorts {
 public:
  virtual ~ManagedPorts() = default;

  // Active ports only; null if there is no such port. Results are valid until the subnet changes.
  virtual const ManagedPort* FindByGid(const Gid& gid) const = 0;
  virtual const ManagedPort* FindByLid(Lid lid) const = 0;
  virtual std::vector<const ManagedPort*> Active() const = 0;  // by LID
  virtual const ManagedSwitch& Switch() const = 0;
};

// True if two P_Key tables have matching entries, so that their ports can reach each other.
bool ShareAPartition(const std::vector<PKey>& a, const std::vector<PKey>& b);
// True if `port` may learn of `other` and send MADs to it: they share a partition, or are the same
// port.
bool MayKnow(const PortConfig& port, const PortConfig& other);
// True for full and limited members.
bool IsMemberOfPartition(const PortConfig& port, PKey pkey);

inline constexpr uint8_t kHcaPort = 1;  // an HCA has one port
inline constexpr char kSwitchDescription[] = "eoib-fabricd";

NodeInfo NodeInfoOf(const ManagedPort& port);
// `local_port`: the switch port by which the request came in.
NodeInfo NodeInfoOf(const ManagedSwitch& node, uint8_t local_port);
PortInfo PortInfoOf(const ManagedPort& port);
// Port 0 of the switch, which has the LID and the SM.
PortInfo PortInfoOf(const ManagedSwitch& node);
// Block number `block` of 32 entries; nullopt beyond the table's capacity.
absl::optional<PKeyTableBlock> PKeyBlockOf(const PortConfig& port, size_t block);
// The number of blocks with entries.
size_t PKeyBlocks(const PortConfig& port);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MANAGED_PORTS_H_
