// NetdevMulticast: the memberships of a network device in IPv6 multicast groups that a RoCE queue pair needs.
//
// A RoCE v2 datagram for an MGID is a UDP packet to the IPv6 address that the MGID spells, and its MAC is 33:33 and the MGID's
// low 32 bits (RFC 2464 §7, ib_resolve_eth_dmac in drivers/infiniband/core/verbs.c). Attaching a queue pair tells the HCA. The
// network device's receive filter, switches that snoop MLD, and the IP layer, through which software RoCE (rdma_rxe) receives,
// hear only of memberships that a socket holds. librdmacm holds them too, for IPv4 groups only (cma_igmp_send).
//
// A socket's memberships end with it. It can hold a few hundred (net.core.optmem_max), so there are as many sockets as it
// takes.
//
// One thread at a time.
#ifndef EOIB_VSWITCH_FABRIC_NETDEV_MULTICAST_H_
#define EOIB_VSWITCH_FABRIC_NETDEV_MULTICAST_H_

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "fdb/address.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib {

class NetdevMulticast {
 public:
  // Makes the network device with that interface index a member of the group. Once for each group; a group that was joined
  // already is left first, at whatever device it was.
  absl::Status Join(int netdev, const Mgid& mgid);
  // Of a group that was not joined nothing happens.
  void Leave(const Mgid& mgid);

  size_t groups() const { return memberships_.size(); }
  size_t sockets() const { return sockets_.size(); }

 private:
  struct Membership {
    int netdev;
    size_t socket;
  };

  absl::Status AddSocket();
  int JoinAt(size_t socket, int netdev, const Mgid& mgid);

  std::vector<UniqueFd> sockets_;
  absl::flat_hash_map<Mgid, Membership> memberships_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_NETDEV_MULTICAST_H_
