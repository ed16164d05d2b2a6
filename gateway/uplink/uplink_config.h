// The configuration of an uplink: [[uplink]] of eoib-gateway.toml.
#ifndef EOIB_GATEWAY_UPLINK_UPLINK_CONFIG_H_
#define EOIB_GATEWAY_UPLINK_UPLINK_CONFIG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "control/config/config_keys.h"
#include "gateway/uplink/vlan_map.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/icmp_error.h"

namespace eoib::gateway {

// The keys of [[uplink]], as in control/config/config_keys.h.
#define EOIB_UPLINK_KEYS(X)                                                                       \
  X(name, name, kReplaced, "required",                                                            \
    Text(key, IsNetdevName, "it is 1 to 15 letters, digits and signs other than / : %"),          \
    "for commands and messages: at most 15 bytes")                                                \
  X(ves, ves, kReplaced, "required", String(key, "it is the name of a [[ves]]"),                  \
    "the name of a [[ves]]")                                                                      \
  X(netdev, netdev, kReplaced, "required",                                                        \
    Text(key, IsNetdevName,                                                                       \
         "it is the name of an interface of this host, such as \"eth1\": at most 15 bytes"),      \
    "the interface to the physical network")                                                      \
  X(vlans, vlans, kReplaced, "those of the VES", VlanPairs(key), "VLANs of the VES")              \
  X(mtu, mtu, kInPlace, "what a datagram of the VES carries", Integer(key, 68, 9000, " bytes"),   \
    "the largest IP packet from the wire")                                                        \
  X(fdb_limit, fdb_limit, kInPlace, "the VES's vport_fdb_limit",                                  \
    Integer(key, 1, 1 << 24, " MAC addresses"), "MACs that are learned from the wire")            \
  X(ves_macs, ves_macs, kInPlace, "no limit", Integer(key, 1, 1 << 24, " MAC addresses"),         \
    "MACs of the VES that the wire gets to see")                                                  \
  X(stp, pass_stp, kInPlace, "\"pass\"", OneOf(key, {"drop", "pass"}), "bridge PDUs, either way") \
  X(lldp, pass_lldp, kInPlace, "\"drop\"", OneOf(key, {"drop", "pass"}), "LLDP, either way")      \
  X(slow, pass_slow, kInPlace, "\"drop\"", OneOf(key, {"drop", "pass"}),                          \
    "slow protocols such as LACP, either way")                                                    \
  X(edge, edge, kInPlace, "true", Bool(key), "the switch port at the other end forwards at once") \
  X(priority, priority, kInPlace, "100",                                                          \
    Integer(key, 1, 255, "; of several gateways the highest works"),                              \
    "of several gateways that start together the highest works")                                  \
  X(peers, peers, kInPlace, "[]", Gids(key, 4096),                                                \
    "GIDs of the ports of all gateways to this network")                                          \
  X(icmp_source, icmp_sources, kInPlace, "the destination of the packet",                         \
    Hosts(key, "[\"10.0.0.250\"]"), "the source of \"packet too big\"")

#define EOIB_X(key, ...) #key,
inline constexpr absl::string_view kUplinkKeys[] = {EOIB_UPLINK_KEYS(EOIB_X)};
#undef EOIB_X

// Joins VLANs of a VES to those of a physical network on a netdev.
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
  IcmpSources icmp_sources;  // of "fragmentation needed" and "packet too big"
  int line = 0;              // of the table in the file

  // Whether the uplink takes over the keys of `next` in place.
  bool MayBecome(const UplinkConfig& next) const {
    Effect effect = ves_pkey == next.ves_pkey ? Effect::kInPlace : Effect::kReplaced;
#define EOIB_X(key, member, its_effect, ...) \
  if (member != next.member) effect = std::max(effect, Effect::its_effect);
    EOIB_UPLINK_KEYS(EOIB_X)
#undef EOIB_X
    return effect == Effect::kInPlace;
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
