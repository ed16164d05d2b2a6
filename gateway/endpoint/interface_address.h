// InterfaceAddress: an address that an interface has, with its subnet.
#ifndef EOIB_GATEWAY_ENDPOINT_INTERFACE_ADDRESS_H_
#define EOIB_GATEWAY_ENDPOINT_INTERFACE_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::endpoint {

// An address that an interface has, with the length of its subnet's prefix.
struct InterfaceAddress {
  IpAddr address;
  int prefix_length = 0;

  // "10.0.0.1/24", "fd00::1/64": a unicast address. Without a length it is the longest: 32, 128.
  static absl::StatusOr<InterfaceAddress> Parse(absl::string_view text);
  bool OnLink(const IpAddr& other) const;
  // The subnet's broadcast address, 10.0.0.255 (RFC 922 §7); subnets of one or two addresses have none (RFC 3021 §2.1), nor has
  // IPv6.
  absl::optional<Ipv4Addr> SubnetBroadcast() const;
  std::string ToString() const;

  friend constexpr auto operator<=>(const InterfaceAddress&, const InterfaceAddress&) = default;
};

// A command line, its first argument the program, with all of --address, --address=A or --address A, as one of them with
// commas: gflags keeps the last of a flag that comes more than once.
std::vector<std::string> JoinAddressFlags(const std::vector<std::string>& arguments);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_INTERFACE_ADDRESS_H_
