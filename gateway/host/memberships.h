// Memberships: the multicast groups of the link that this host listens to: those of every host, the
// solicited-node groups of its IPv6 addresses, from when an address is tentative (RFC 4862 §5.4.2),
// and the kernel's (README.md, "Groups").
//
// The Interface keeps the groups over changes of the link. If the link's scope or P_Key changes, so
// do the MGIDs, and all groups are joined again. One thread; the Interface outlives it.
#ifndef EOIB_GATEWAY_HOST_MEMBERSHIPS_H_
#define EOIB_GATEWAY_HOST_MEMBERSHIPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "gateway/link/interface.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

class Memberships {
 public:
  // For the kernel's groups: the hosts of an InfiniBand subnet share few multicast LIDs.
  static constexpr size_t kLimit = 1024;

  explicit Memberships(ipoib::Interface* link) : link_(link) {}
  Memberships(const Memberships&) = delete;
  Memberships& operator=(const Memberships&) = delete;

  // The link is up, or has changed. Call it once at the start, too.
  void OnLinkState() { Update(); }

  // Sets the assigned and tentative IPv6 addresses of this host.
  void SetAddresses(const std::set<Ipv6Addr>& addresses);
  // Sets all groups that the kernel is in on the TUN.
  void SetKernelGroups(const std::set<IpAddr>& groups);

  // True if the kernel is known to be in the group.
  bool KernelIsIn(const IpAddr& group) const { return kernel_.contains(group); }
  // The IP groups that are listened to. Several may share an MGID.
  std::set<IpAddr> Groups() const;
  uint64_t refused() const { return refused_; }  // joins beyond the limit

 private:
  // The groups to listen to, by MGID, because IP groups may share one.
  std::map<Mgid, IpoibGroup> Wanted(const IpoibLink& link) const;
  void Update();

  ipoib::Interface* const link_;
  std::set<Ipv6Addr> solicited_;  // groups
  std::set<IpAddr> kernel_;
  std::map<Mgid, IpoibGroup> listened_;
  uint64_t refused_ = 0;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_MEMBERSHIPS_H_
