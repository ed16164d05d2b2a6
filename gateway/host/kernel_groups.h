// Reads the kernel's multicast groups of an interface from /proc/net/igmp and /proc/net/igmp6.
// (Netlink lists only those of IPv6 before Linux 6.15.)
#ifndef EOIB_GATEWAY_HOST_KERNEL_GROUPS_H_
#define EOIB_GATEWAY_HOST_KERNEL_GROUPS_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

// The groups of `interface` in the text of the two files.
std::set<IpAddr> ParseKernelGroups(absl::string_view igmp, absl::string_view igmp6,
                                   absl::string_view interface);

// The groups of `interface` in the calling thread's network namespace. Absent if /proc has no igmp
// file. A missing igmp6 file means a kernel without IPv6.
absl::optional<std::set<IpAddr>> ReadKernelGroups(const std::string& interface);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_KERNEL_GROUPS_H_
