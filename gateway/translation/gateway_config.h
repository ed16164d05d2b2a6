// GatewayConfig: the configuration of one gateway between a VES and an IPoIB link.
#ifndef EOIB_GATEWAY_TRANSLATION_GATEWAY_CONFIG_H_
#define EOIB_GATEWAY_TRANSLATION_GATEWAY_CONFIG_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config/config_keys.h"
#include "gateway/translation/options.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::gateway {

// The keys of [[gateway]], as in control/config/config_keys.h.
#define EOIB_GATEWAY_KEYS(X)                                                                     \
  X(name, name, kReplaced, "required",                                                           \
    Text(key, IsNetdevName, "it is 1 to 15 letters, digits and signs other than / : %"),         \
    "for commands, and of its file in the state directory: at most 15 bytes")                    \
  X(ves, ves, kReplaced, "required", String(key, "it is the name of a [[ves]]"),                 \
    "the name of a [[ves]]")                                                                     \
  X(vlan, vlan, kReplaced, "0", Vlan(key), "of the VES; 0 is untagged")                          \
  X(pkey, pkey, kReplaced, "the VES's",                                                          \
    IntegerOrString(key, 1, 0xffff,                                                              \
                    "it is a partition of the subnet, 0x8001 to 0xffff (or without the "         \
                    "membership bit, 0x1 to 0x7fff)"),                                           \
    "the partition of the IPoIB link")                                                           \
  X(scope, scope, kReplaced, "2",                                                                \
    IntegerOrString(key, 1, 14,                                                                  \
                    "it is the scope of the broadcast group, 1 to 14 (2: link-local)"),          \
    "of the link's broadcast group: 2 is link-local, 5 site-local")                              \
  X(priority, priority, kInPlace, "100",                                                         \
    Integer(key, 1, 255, "; of several gateways the highest works"),                             \
    "of several gateways of a pair that start together the highest works")                       \
  X(peers, peers, kInPlace, "hellos of all count", Gids(key, 4096),                              \
    "GIDs of the ports of the pair's gateways")                                                  \
  X(prefixes, translation.prefixes, kInPlace, "learned ones",                                    \
    List(key, "[\"10.0.0.0/24\", \"fd00::/64\"]", "a prefix is written \"10.0.0.0/24\"",         \
         translation::Prefix::Parse),                                                            \
    "networks that are on the link")                                                             \
  X(routers, translation.routers, kInPlace, "learned ones",                                      \
    Hosts(key, "[\"10.0.0.1\", \"fe80::1\"]"), "routers on the Ethernet side to other networks") \
  X(icmp_source, translation.icmp_sources, kInPlace, "the destination of the packet",            \
    Hosts(key, "[\"10.0.0.250\"]"), "the source of \"packet too big\"")                          \
  X(grh, grh, kReplaced, "true", Bool(key),                                                      \
    "send unicast to IPoIB hosts with a global route header")                                    \
  X(all_groups, all_groups, kReplaced, "false", Bool(key),                                       \
    "receive every multicast group of the link")                                                 \
  X(query_groups, translation.query_groups, kInPlace, "true", Bool(key),                         \
    "query Ethernet hosts for their groups where no other querier does")                         \
  X(stations, translation.max_stations, kInPlace, "4096",                                        \
    Integer(key, 1, translation::Options::kMostStations, " IPoIB interfaces"),                   \
    "IPoIB interfaces known at once")                                                            \
  X(neighbors, translation.max_neighbors, kInPlace, "16384",                                     \
    Integer(key, 1, translation::Options::kMostNeighbors, " addresses of Ethernet hosts"),       \
    "addresses of Ethernet hosts known at once")                                                 \
  X(asks_per_second, translation.asks_per_second, kInPlace, "100",                               \
    Integer(key, 1, 1'000'000, " solicitations for unknown hosts"),                              \
    "solicitations for unknown hosts, to either side")

#define EOIB_X(key, ...) #key,
inline constexpr absl::string_view kGatewayKeys[] = {EOIB_GATEWAY_KEYS(EOIB_X)};
#undef EOIB_X

// [[gateway]]: makes one VLAN of a VES and one IPoIB link one IP subnet.
struct GatewayConfig {
  std::string name;  // also the vPort's name, so unique among vPorts
  std::string ves;   // the name of its VES
  PKey ves_pkey;     // the P_Key of the VES
  Vid vlan;          // of the VES; default 0, untagged
  PKey pkey;         // of the IPoIB link; default the VES's
  MulticastScope scope = MulticastScope::LinkLocal();
  uint8_t priority = 100;  // the highest of a pair's gateways becomes active
  // GIDs whose hellos count; absent: hellos of any GID count.
  absl::optional<std::vector<Gid>> peers;
  bool grh = true;  // send unicast to IPoIB hosts with a GRH
  // Receive every multicast group of the IPoIB link (RFC 4391 §11), not only requested ones.
  bool all_groups = false;
  translation::Options translation;
  int line = 0;  // of the table in the file

  // Whether the gateway takes over the keys of `next` in place.
  bool MayBecome(const GatewayConfig& next) const {
    Effect effect = ves_pkey == next.ves_pkey ? Effect::kInPlace : Effect::kReplaced;
#define EOIB_X(key, member, its_effect, ...) \
  if (member != next.member) effect = std::max(effect, Effect::its_effect);
    EOIB_GATEWAY_KEYS(EOIB_X)
#undef EOIB_X
    return effect == Effect::kInPlace;
  }
  friend bool operator==(const GatewayConfig&, const GatewayConfig&) = default;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_GATEWAY_CONFIG_H_
