// DhcpLease: what a DHCP server grants, as a DHCPACK says (RFC 2131 §4.3.1, §4.4.5).
#ifndef EOIB_GATEWAY_HOST_DHCP_LEASE_H_
#define EOIB_GATEWAY_HOST_DHCP_LEASE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/host/interface_address.h"
#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

struct DhcpLease {
  // The lease in a DHCPACK; it counts from `requested_at`, when the DHCPREQUEST was sent (§4.4.1).
  // Absent if the message lacks an address, a server identifier or a lease time, or if its mask has
  // holes.
  static absl::optional<DhcpLease> Read(const DhcpMessage& ack, absl::Time requested_at);

  InterfaceAddress address;
  Ipv4Addr server;
  std::vector<Ipv4Addr> routers;
  std::vector<Ipv4Addr> name_servers;
  std::string domain;
  absl::Time renew, rebind, expiry;  // T1, T2 and the end (§4.4.5)
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_DHCP_LEASE_H_
