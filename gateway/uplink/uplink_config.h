// The configuration of an uplink: [[uplink]] of eoib-gateway.toml.
#ifndef EOIB_GATEWAY_UPLINK_UPLINK_CONFIG_H_
#define EOIB_GATEWAY_UPLINK_UPLINK_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "gateway/uplink/vlan_map.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::gateway {

// The keys of [[uplink]].
inline constexpr absl::string_view kUplinkKeys[] = {
    "name", "ves",  "netdev", "vlans", "mtu",      "fdb_limit", "ves_macs",
    "stp",  "lldp", "slow",   "edge",  "priority", "peers",     "icmp_source"};

// Joins VLANs of a VES to those of a physical network on a netdev. Other values of `name`, `ves`,
// `netdev` and `vlans` make another uplink; the other keys change in place.
struct UplinkConfig {
  std::string name;    // also the vPort's name, so unique among vPorts
  std::string ves;     // the name of its VES
  PKey ves_pkey;       // the P_Key of the VES
  std::string netdev;  // the interface to the physical network
  VlanMap vlans;
  // The largest IP packet from the wire; default: what a datagram of the VES carries.
  absl::optional<int> mtu;
  absl::optional<size_t> fdb_limit;  // MACs of the physical network
  absl::optional<size_t> ves_macs;   // MACs of the VES that the physical network gets to see
  bool pass_stp = true;              // bridge PDUs, either way
  bool pass_lldp = false;
  bool pass_slow = false;  // slow protocols, such as LACP
  bool edge = true;        // the port at the other end of the wire forwards at once
  uint8_t priority = 100;  // the highest of several gateways becomes active
  // GIDs of the ports of all gateways to this network; empty: this one is alone.
  std::vector<Gid> peers;
  absl::optional<Ipv4Addr>
      icmp_source4;  // of "fragmentation needed"; default: the destination of the packet
  absl::optional<Ipv6Addr> icmp_source6;  // of "packet too big"
  int line = 0;                           // of the table in the file

  // Whether the uplink takes over the keys of `next` in place.
  bool MayBecome(const UplinkConfig& next) const {
    UplinkConfig changed = next;
    changed.name = name;
    changed.ves = ves;
    changed.ves_pkey = ves_pkey;
    changed.netdev = netdev;
    changed.vlans = vlans;
    return changed == next;
  }
  friend bool operator==(const UplinkConfig&, const UplinkConfig&) = default;
};

inline constexpr VPortKind kUplinkVPort{
    .name = "uplink",
    .noun = "uplink",
    .if_replaced = "it opens its netdev again; no traffic until the election is over"};
// The vPort of an uplink in its VES.
VPortConfig VPortOf(const UplinkConfig& uplink);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_UPLINK_CONFIG_H_
