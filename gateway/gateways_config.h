// The configuration of eoib-gateway: VESes as in an agent's configuration, the gateways between
// them and IPoIB links, and the uplinks between them and physical networks. gateways_config.cc
// refuses [[vport]] tables: its only vPorts are these.
#ifndef EOIB_GATEWAY_GATEWAYS_CONFIG_H_
#define EOIB_GATEWAY_GATEWAYS_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "control/config/config.h"
#include "gateway/translation/gateway_config.h"
#include "gateway/uplink/uplink_config.h"

namespace eoib::gateway {

struct GatewaysConfig {
  // With a vPort of type "ipoib" for each gateway, then one of type "uplink" for each uplink.
  AgentConfig agent;
  std::vector<GatewayConfig> gateways;
  std::vector<UplinkConfig> uplinks;
};

// Like ParseConfig and LoadConfig of control/config/config.h.
absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(absl::string_view toml,
                                                   absl::string_view source);
absl::StatusOr<GatewaysConfig> ParseGatewaysConfig(const ConfigText& text);
absl::StatusOr<ConfigText> LoadGatewaysConfigText(const std::string& path,
                                                  absl::string_view program = "");
absl::StatusOr<GatewaysConfig> LoadGatewaysConfig(const std::string& path);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAYS_CONFIG_H_
