// The operator's commands for uplinks: uplink/show, uplink/stats.
#ifndef EOIB_GATEWAY_UPLINK_UPLINK_COMMANDS_H_
#define EOIB_GATEWAY_UPLINK_UPLINK_COMMANDS_H_

#include "gateway/uplink/uplink.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/metric_set.h"

namespace eoib::gateway {

// `uplinks` outlives the registry's use of it.
void RegisterUplinkCommands(const Uplinks* uplinks, CommandRegistry* registry);
void CollectUplinks(const Uplinks& uplinks, MetricSet* metrics);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_UPLINK_COMMANDS_H_
