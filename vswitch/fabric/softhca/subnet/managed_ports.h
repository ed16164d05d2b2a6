// What the managers of a software subnet (SA, SMP and performance responders) know of its ports and its one virtual switch, and
// the attributes that they report of them.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MANAGED_PORTS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MANAGED_PORTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/wire/mad.h"
#include "vswitch/wire/smp.h"

namespace eoib::softhca {

struct ManagedPort {
  std::string name;  // its node description
  PortConfig config;
  uint8_t switch_port = 0;  // where its cable is plugged in; 0: beyond the switch's last port, and reached by LID only
};

// All ports hang on one switch, on whose port 0 the subnet manager runs.
struct ManagedSwitch {
  static constexpr uint8_t kPorts = 254;
  static constexpr Lid kDefaultLid{1};  // no port's, wherever the subnet manager moves

  Guid guid;
  Gid gid;
  Lid lid = kDefaultLid;
  bool runs_sm = true;
};

class ManagedPorts {
 public:
  virtual ~ManagedPorts() = default;

  // The active ports. Results live until the subnet changes; null if there is no such port, or it is not active.
  virtual const ManagedPort* FindByGid(const Gid& gid) const = 0;
  virtual const ManagedPort* FindByLid(Lid lid) const = 0;
  virtual std::vector<const ManagedPort*> Active() const = 0;  // by LID
  virtual const ManagedSwitch& Switch() const = 0;
};

// Who sent a MAD, and hears the answer to it: a process of a port.
struct MadEndpoint {
  MadEndpoint(const Gid& port, uint64_t process = 0) : port(port), process(process) {}  // NOLINT: mostly all of a port's

  Gid port;
  uint64_t process;  // 0: all of the port's

  friend bool operator==(const MadEndpoint&, const MadEndpoint&) = default;
  friend auto operator<=>(const MadEndpoint&, const MadEndpoint&) = default;
};

// A MAD on its way to a port.
struct OutgoingMad {
  MadEndpoint to;
  Mad mad;
  Lid from = Lid();  // not valid: the subnet manager's
};

// Whether two P_Key tables have entries that match: their ports can reach each other.
bool ShareAPartition(const std::vector<PKey>& a, const std::vector<PKey>& b);
// Whether the managers let one port know of the other: they share a partition, or are the same.
bool MayKnow(const PortConfig& port, const PortConfig& other);
// Full or limited.
bool IsMemberOfPartition(const PortConfig& port, PKey pkey);

inline constexpr uint8_t kHcaPort = 1;  // its only one
inline constexpr char kSwitchDescription[] = "eoib-fabricd";

NodeInfo NodeInfoOf(const ManagedPort& port);
// As seen through the switch port by which the question came in.
NodeInfo NodeInfoOf(const ManagedSwitch& node, uint8_t local_port);
PortInfo PortInfoOf(const ManagedPort& port);
// The switch's port 0, which all its LID and SM matters are about.
PortInfo PortInfoOf(const ManagedSwitch& node);
// Number `block` of 32 entries; nothing if it is beyond the table's capacity.
absl::optional<PKeyTableBlock> PKeyBlockOf(const PortConfig& port, size_t block);
// Those that have entries.
size_t PKeyBlocks(const PortConfig& port);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_MANAGED_PORTS_H_
