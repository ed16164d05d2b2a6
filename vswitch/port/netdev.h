// Netdevs of the kernel, by rtnetlink(7): what they are, and changes of them.
//
// Each function takes a netlink socket (AF_NETLINK, NETLINK_ROUTE) that was opened in the netdevs'
// network namespace, and returns an errno value, or 0. One thread.
#ifndef EOIB_VSWITCH_PORT_NETDEV_H_
#define EOIB_VSWITCH_PORT_NETDEV_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"

namespace eoib {

struct NetdevInfo {
  int index = 0;
  std::string name;
  std::string alias;
  std::string kind;  // "tun" of TUNs and TAPs, "veth", "bridge"; empty: a NIC
  MacAddr mac;
  uint32_t mtu = 0;
  bool ethernet = false;  // it has Ethernet frames
  int master = 0;         // index of the bridge, bond or other netdev that it is a port of; 0: none
  bool up = false;        // administratively
  bool carrier = false;
};
// The netdev `name`; ENODEV if there is none.
int FindNetdev(int netlink, const std::string& name, NetdevInfo* info);
int VisitNetdevs(int netlink, absl::FunctionRef<void(const NetdevInfo& info)> visit);

struct NetdevChange {
  absl::optional<std::string> alias;
  absl::optional<std::string> new_name;
  bool no_ipv6_addresses = false;  // the kernel makes none by itself (addrgenmode none)
  // Bytes: the kernel cuts super-frames of this size or more.
  absl::optional<uint32_t> gso_max_size;
  absl::optional<uint32_t> group;
};
int ChangeNetdev(int netlink, const std::string& name, const NetdevChange& change);

// Deletes all netdevs of a group at once. Deleting a single one takes some 20 ms, in which the
// kernel waits for RCU grace periods.
int DeleteNetdevs(int netlink, uint32_t group);

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_NETDEV_H_
