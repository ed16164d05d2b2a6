// NetdevMulticast: the IPv6 multicast memberships of a network device that a RoCE queue pair needs
// to receive its groups.
//
// Attaching a queue pair to an MGID tells only the HCA. The device's receive filter, switches that
// snoop MLD, and the IP layer below software RoCE (rdma_rxe) learn of groups from sockets alone. A
// socket holds a few hundred memberships (net.core.optmem_max), so more sockets are opened as
// needed. See README.md, "RoCE".
//
// One thread at a time.
#ifndef EOIB_VSWITCH_FABRIC_NETDEV_MULTICAST_H_
#define EOIB_VSWITCH_FABRIC_NETDEV_MULTICAST_H_

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

class NetdevMulticast {
 public:
  // Joins the group on the network device with interface index `netdev`. A group that is already
  // joined is left first, on whichever device that was.
  absl::Status Join(int netdev, const Mgid& mgid);
  // Does nothing if the group is not joined.
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
