// Chooses the entry of a RoCE port's GID table that datagrams use as their source: RoCE v2, an IPv6
// address, assigned to the port's network device, and preferably link-local. README.md, "RoCE",
// gives the reasons.
#ifndef EOIB_VSWITCH_FABRIC_ROCE_GID_H_
#define EOIB_VSWITCH_FABRIC_ROCE_GID_H_

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

// An address handle has one byte for the index (ibv_global_route), so later entries cannot be used.
inline constexpr int kMaxRoceGids = 256;

struct RoceGid {
  int index = 0;
  Gid gid;
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
  int netdev = 0;         // interface index; 0: none
  bool assigned = false;  // the network device has this address now

  static RoceGid FromEntry(const ibv_gid_entry& entry);
  bool IsIpv4() const;  // ::ffff:a.b.c.d
  // "GID 0 fe80:..., RoCE v2 on eth0".
  std::string ToString() const;
};

// Reads the port's GID table. Looks up the addresses of the network devices once.
absl::StatusOr<std::vector<RoceGid>> ReadRoceGids(const Hca& hca);

// Returns the best index for the port named `port`. While its network device is down and has no
// IPv6 address, that is the default entry, which becomes valid if the host derives the address from
// the MAC. kFailedPrecondition, with the table, if no entry fits.
absl::StatusOr<int> ChooseRoceGid(const std::vector<RoceGid>& table, absl::string_view port);
// Checks `index`, which the operator has chosen.
absl::Status CheckRoceGid(const std::vector<RoceGid>& table, int index, absl::string_view port);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_ROCE_GID_H_
