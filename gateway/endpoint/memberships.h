// Memberships: which multicast groups of the link this host listens to. They follow from four things:
//
//   - every host is in 224.0.0.1 and ff02::1, of which no host reports (RFC 1112 §7.2, RFC 2710 §3);
//   - solicitations for an IPv6 address go to its solicited-node group. The kernel joins none on a TUN, which has no neighbour
//     discovery; so they come from Addresses, from the moment an address is tentative (RFC 4862 §5.4.2);
//   - what the kernel joins, it reports on the TUN, by IGMP and MLD, and those reports are the first word of it (OnReport);
//   - but a report may be lost: the queue of a TUN without carrier takes none, and no querier need be there to ask again. So
//   each
//     is a hint to look at the kernel's own list too, which then replaces what was heard (SetKernelGroups). The list alone
//     would do, but nobody tells when it changes: it would be read every second, and a join would take half of that.
//
// Only changes are told to the Interface, which keeps them over changes of the link; if its scope or P_Key changes, the groups'
// MGIDs do, and all of them are listened to anew. One thread; the Interface stays the caller's.
#ifndef EOIB_GATEWAY_ENDPOINT_MEMBERSHIPS_H_
#define EOIB_GATEWAY_ENDPOINT_MEMBERSHIPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "absl/types/optional.h"
#include "gateway/ipoib/interface.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::endpoint {

class Memberships {
 public:
  // Of the kernel's groups. An InfiniBand subnet has few multicast LIDs for all its hosts.
  static constexpr size_t kLimit = 1024;

  explicit Memberships(ipoib::Interface* link) : link_(link) {}
  Memberships(const Memberships&) = delete;
  Memberships& operator=(const Memberships&) = delete;

  // The link is up, or of another kind; also the first time.
  void OnLinkState();

  // The IPv6 addresses that this host has or would like to have.
  void SetAddresses(const std::set<Ipv6Addr>& addresses);
  // The kernel has said that it joins or leaves.
  void OnReport(const IpAddr& group, bool wanted);
  // All groups that the kernel is in on the TUN.
  void SetKernelGroups(const std::set<IpAddr>& groups);

  // Whether the kernel is in it, as far as is known.
  bool KernelIsIn(const IpAddr& group) const { return kernel_.contains(group); }
  // IP groups listened to, in their order. Several may share one of the link.
  std::set<IpAddr> Groups() const;
  uint64_t refused() const { return refused_; }  // joins beyond the limit

 private:
  // By MGID, because IP groups may share one.
  std::map<Mgid, IpoibGroup> Wanted(const IpoibLink& link) const;
  void Update();

  ipoib::Interface* const link_;
  std::set<Ipv6Addr> solicited_;  // groups
  std::set<IpAddr> kernel_;
  std::map<Mgid, IpoibGroup> listened_;
  uint64_t refused_ = 0;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_MEMBERSHIPS_H_
