// Fuzzes the configuration of eoib-gateway: no crash, every refusal names the source, and an
// accepted configuration satisfies gateways_config.h.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gateway/gateways_config.h"
#include "vswitch/base/check.h"

namespace eoib::gateway {
namespace {

void CheckGateway(const GatewayConfig& gateway) {
  EOIB_CHECK(gateway.ves_pkey.IsValid() && gateway.pkey.IsValid());
  EOIB_CHECK(gateway.priority >= 1);
  EOIB_CHECK(gateway.translation.max_stations >= 1 && gateway.translation.max_neighbors >= 1);
  EOIB_CHECK(gateway.translation.ask_burst_each >= 1);
}

void CheckUplink(const UplinkConfig& uplink) {
  EOIB_CHECK(uplink.ves_pkey.IsValid() && !uplink.netdev.empty() && uplink.netdev.size() <= 15);
  EOIB_CHECK(!uplink.vlans.vlans().empty());
  EOIB_CHECK(!uplink.mtu.has_value() || (*uplink.mtu >= 68 && *uplink.mtu <= 9000));
}

void CheckAccepted(const GatewaysConfig& config) {
  EOIB_CHECK(!config.agent.vports.empty());
  EOIB_CHECK(config.agent.vports.size() == config.gateways.size() + config.uplinks.size());
  std::set<std::string> names, veses;
  for (const VesConfig& ves : config.agent.veses) veses.insert(ves.name);
  for (const VPortConfig& vport : config.agent.vports) {
    EOIB_CHECK(!vport.name.empty() && vport.name.size() <= 15 && names.insert(vport.name).second);
    EOIB_CHECK(veses.count(vport.ves) == 1);
  }
  for (const GatewayConfig& gateway : config.gateways) CheckGateway(gateway);
  for (const UplinkConfig& uplink : config.uplinks) CheckUplink(uplink);
}

}  // namespace
}  // namespace eoib::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = eoib::gateway::ParseGatewaysConfig(text, "f");
  if (config.ok()) {
    eoib::gateway::CheckAccepted(*config);
  } else {
    EOIB_CHECK(absl::StartsWith(config.status().message(), "f:"));
  }
  return 0;
}
