#include "vswitch/fabric/netdev_multicast.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

// The MGID is the group's IPv6 address.
ipv6_mreq Request(int netdev, const Mgid& mgid) {
  ipv6_mreq request = {};
  mgid.gid().ToWire(&request.ipv6mr_multiaddr);
  request.ipv6mr_interface = static_cast<unsigned>(netdev);
  return request;
}

std::string Describe(int netdev) {
  char name[IF_NAMESIZE];
  if (if_indextoname(static_cast<unsigned>(netdev), name) != nullptr) return absl::CHexEscape(name);
  return absl::StrCat(netdev, ", which is not in this process's network namespace");
}

}  // namespace

absl::Status NetdevMulticast::AddSocket() {
  UniqueFd fd(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "open a socket for IPv6 multicast groups");
  sockets_.push_back(std::move(fd));
  return absl::OkStatus();
}

// Returns 0 or an errno.
int NetdevMulticast::JoinAt(size_t socket, int netdev, const Mgid& mgid) {
  const ipv6_mreq request = Request(netdev, mgid);
  if (setsockopt(sockets_[socket].get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &request,
                 sizeof(request)) != 0)
    return errno;
  memberships_.insert_or_assign(mgid, Membership{netdev, socket});
  return 0;
}

absl::Status NetdevMulticast::Join(int netdev, const Mgid& mgid) {
  Leave(mgid);
  int error = ENOMEM;
  // A full socket returns ENOMEM (ipv6_sock_mc_join). An earlier socket may have room again after a
  // Leave.
  for (size_t i = 0; i < sockets_.size() && error == ENOMEM; ++i) error = JoinAt(i, netdev, mgid);
  if (error == ENOMEM) {
    if (absl::Status status = AddSocket(); !status.ok()) return status;
    error = JoinAt(sockets_.size() - 1, netdev, mgid);
  }
  if (error == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("join IPv6 group ", mgid.ToString(),
                                                 " on network device ", Describe(netdev)));
}

// The kernel frees the socket's slot even if the network device is gone.
void NetdevMulticast::Leave(const Mgid& mgid) {
  const auto found = memberships_.find(mgid);
  if (found == memberships_.end()) return;
  const ipv6_mreq request = Request(found->second.netdev, mgid);
  setsockopt(sockets_[found->second.socket].get(), IPPROTO_IPV6, IPV6_LEAVE_GROUP, &request,
             sizeof(request));
  memberships_.erase(found);
}

}  // namespace eoib
