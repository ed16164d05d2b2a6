// InterfaceAddress: an IP address of an interface, with its prefix length. Also joins repeated
// --address flags.
#ifndef EOIB_GATEWAY_HOST_INTERFACE_ADDRESS_H_
#define EOIB_GATEWAY_HOST_INTERFACE_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

struct InterfaceAddress {
  IpAddr address;
  int prefix_length = 0;

  // Parses a unicast address like "10.0.0.1/24" or "fd00::1/64". The default length is 32 or 128.
  static absl::StatusOr<InterfaceAddress> Parse(absl::string_view text);
  bool OnLink(const IpAddr& other) const { return HasPrefix(other, address, prefix_length); }
  // The subnet's broadcast address, such as 10.0.0.255 (RFC 922 §7). Absent for IPv6, and for IPv4
  // subnets of one or two addresses (RFC 3021 §2.1).
  absl::optional<Ipv4Addr> SubnetBroadcast() const;
  std::string ToString() const;

  friend constexpr auto operator<=>(const InterfaceAddress&, const InterfaceAddress&) = default;
};

// Returns the command line with all --address flags joined into one, their values separated by
// commas. (gflags would keep only the last of a repeated flag.) The first argument is the program.
std::vector<std::string> JoinAddressFlags(const std::vector<std::string>& arguments);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_INTERFACE_ADDRESS_H_
