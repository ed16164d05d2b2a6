// Which entry of its GID table a RoCE port speaks from.
//
// The kernel fills that table (drivers/infiniband/core/roce_gid_mgmt.c): for each RoCE version that the HCA speaks an entry for
// every IP address of the port's network device, and default entries made of its MAC. The GID is the source address of what is
// sent, and its type decides about the packet's headers. So for a VES it has to be
//   - of RoCE v2: v1 frames have an EtherType of their own, which nothing but an HCA of the same wire understands;
//   - an IPv6 address: the groups of a VES are, and the source and destination of a packet are of one kind;
//   - one that the network device has: neighbour discovery finds others at no host, and address handles to them cannot be made.
//     A default entry is none if the host makes its link-local address otherwise (addr_gen_mode stable-privacy).
// A link-local address is preferred, because the scope of a VES's groups is the link too.
#ifndef EOIB_VSWITCH_FABRIC_ROCE_GID_H_
#define EOIB_VSWITCH_FABRIC_ROCE_GID_H_

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "fdb/address.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

// Further entries of a table are out of an address handle's reach: it has a byte for the index (ibv_global_route).
inline constexpr int kMaxRoceGids = 256;

struct RoceGid {
  int index = 0;
  Gid gid;
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
  int netdev = 0;         // interface index; 0: none
  bool assigned = false;  // an address of that network device, now

  static RoceGid FromEntry(const ibv_gid_entry& entry);
  bool IsIpv4() const;  // ::ffff:a.b.c.d
  // "GID 0 fe80:..., RoCE v2 on eth0".
  std::string ToString() const;
};

// The GID table of the port. IPv6 addresses of network devices are looked up once.
absl::StatusOr<std::vector<RoceGid>> ReadRoceGids(const Hca& hca);

// The index that a port named `port` takes by itself. While its network device has no IPv6 address (it is down), the one that
// it will have if it makes them of its MAC. kFailedPrecondition, listing the table, if no entry will do.
absl::StatusOr<int> ChooseRoceGid(const std::vector<RoceGid>& table, absl::string_view port);
// Whether `index`, which the operator has chosen, will do.
absl::Status CheckRoceGid(const std::vector<RoceGid>& table, int index, absl::string_view port);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_ROCE_GID_H_
