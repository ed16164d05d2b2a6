// GatewayConfig: the configuration of one gateway between a VES and an IPoIB link.
#ifndef EOIB_GATEWAY_TRANSLATION_GATEWAY_CONFIG_H_
#define EOIB_GATEWAY_TRANSLATION_GATEWAY_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "gateway/translation/options.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::gateway {

// The keys of [[gateway]].
inline constexpr absl::string_view kGatewayKeys[] = {
    "name",        "ves",         "vlan",     "pkey",       "scope",
    "priority",    "peers",       "grh",      "all_groups", "prefixes",
    "routers",     "icmp_source", "stations", "neighbors",  "asks_per_second",
    "query_groups"};

// [[gateway]]: makes one VLAN of a VES and one IPoIB link one IP subnet. `priority`, `peers`,
// `query_groups` and the keys of `translation` change in place; another value of the other keys
// makes another gateway.
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
    GatewayConfig changed = *this;
    changed.priority = next.priority;
    changed.peers = next.peers;
    changed.translation = next.translation;
    changed.line = next.line;
    return changed == next;
  }
  friend bool operator==(const GatewayConfig&, const GatewayConfig&) = default;
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_TRANSLATION_GATEWAY_CONFIG_H_
