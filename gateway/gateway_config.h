// The configuration of eoib-gateway: VESes (and, if there are any, vPorts) as an agent's, and gateways between them and IPoIB
// links. See README.md.
#ifndef EOIB_GATEWAY_GATEWAY_CONFIG_H_
#define EOIB_GATEWAY_GATEWAY_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "control/config.h"
#include "fdb/address.h"
#include "gateway/translation/options.h"
#include "vswitch/wire/ipoib_group.h"

namespace eoib::gateway {

// [[gateway]]: one VLAN of a VES and one IPoIB link are the same IP subnet.
struct GatewayConfig {
  std::string name;  // unique, also among vPorts: it is the vPort's name as well
  std::string ves;   // the name of its VES
  Vid vlan;          // of the VES; default 0, untagged
  PKey pkey;         // of the IPoIB link; default the VES's
  MulticastScope scope = MulticastScope::LinkLocal();
  uint8_t priority = 100;                  // of several gateways of the same pair the highest works
  absl::optional<std::vector<Gid>> peers;  // whose hellos count; nothing: everybody's
  bool grh = true;                         // in unicast to IPoIB hosts
  bool all_groups = false;  // receive every multicast group of the IPoIB link (RFC 4391 §11), not only those asked for
  translation::Options translation;
  int line = 0;  // of its table in the file
};

struct GatewaysConfig {
  AgentConfig agent;  // with a vPort of type "ipoib" for each gateway
  std::vector<GatewayConfig> gateways;
};

// As ParseConfig and LoadConfig.
absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(absl::string_view toml, absl::string_view source);
absl::StatusOr<GatewaysConfig> LoadGatewaysConfig(const std::string& path);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAY_CONFIG_H_
