// The configuration of eoib-gateway: VESes as in an agent's configuration, the gateways between them and IPoIB links, and the
// uplinks between them and physical networks. gateway_config.cc refuses [[vport]] tables: its only vPorts are these.
#ifndef EOIB_GATEWAY_GATEWAY_CONFIG_H_
#define EOIB_GATEWAY_GATEWAY_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "gateway/translation/options.h"
#include "gateway/uplink/uplink_config.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::gateway {

// The keys of [[gateway]].
inline constexpr absl::string_view kGatewayKeys[] = {
    "name",       "ves",      "vlan",    "pkey",        "scope",    "priority",  "peers",           "grh",
    "all_groups", "prefixes", "routers", "icmp_source", "stations", "neighbors", "asks_per_second", "query_groups"};

// [[gateway]]: makes one VLAN of a VES and one IPoIB link one IP subnet. `priority`, `peers`, `query_groups` and the keys of
// `translation` change in place; another value of the other keys makes another gateway.
struct GatewayConfig {
  std::string name;  // also the vPort's name, so unique among vPorts
  std::string ves;   // the name of its VES
  Vid vlan;          // of the VES; default 0, untagged
  PKey pkey;         // of the IPoIB link; default the VES's
  MulticastScope scope = MulticastScope::LinkLocal();
  uint8_t priority = 100;                  // the highest of a pair's gateways becomes active
  absl::optional<std::vector<Gid>> peers;  // GIDs whose hellos count; absent: hellos of any GID count
  bool grh = true;                         // send unicast to IPoIB hosts with a GRH
  bool all_groups = false;  // receive every multicast group of the IPoIB link (RFC 4391 §11), not only requested ones
  translation::Options translation;
  int line = 0;  // of the table in the file
};

struct GatewaysConfig {
  // With a vPort of type "ipoib" for each gateway, then one of type "uplink" for each uplink.
  AgentConfig agent;
  std::vector<GatewayConfig> gateways;
  std::vector<UplinkConfig> uplinks;
};

// Like ParseConfig and LoadConfig of control/config/config.h.
absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(absl::string_view toml, absl::string_view source);
absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(const ConfigText& text);
absl::StatusOr<ConfigText> LoadGatewaysConfigText(const std::string& path);
absl::StatusOr<GatewaysConfig> LoadGatewaysConfig(const std::string& path);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAY_CONFIG_H_
