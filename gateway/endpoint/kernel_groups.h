// Which multicast groups the kernel is in on an interface, as /proc/net/igmp and /proc/net/igmp6 list them. (Netlink lists
// those of IPv6 only, before Linux 6.15.)
#ifndef EOIB_GATEWAY_ENDPOINT_KERNEL_GROUPS_H_
#define EOIB_GATEWAY_ENDPOINT_KERNEL_GROUPS_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::endpoint {

// What the two files say of `interface`.
std::set<IpAddr> ParseKernelGroups(absl::string_view igmp, absl::string_view igmp6, absl::string_view interface);

// The same of the calling thread's network namespace. Nothing if there is no such file: IPv6 may be missing, IPv4 is always
// there if /proc is.
absl::optional<std::set<IpAddr>> ReadKernelGroups(const std::string& interface);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_KERNEL_GROUPS_H_
