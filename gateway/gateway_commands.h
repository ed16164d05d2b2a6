// Commands of the control socket for gateways: gateway/show, neigh/show, route/show, route/flush,
// groups, stats, drops, trace.
#ifndef EOIB_GATEWAY_GATEWAY_COMMANDS_H_
#define EOIB_GATEWAY_GATEWAY_COMMANDS_H_

#include "gateway/translation/gateway.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib::gateway {

// `gateways` outlives the commands.
void RegisterGatewayCommands(const Gateways* gateways, CommandRegistry* registry);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAY_COMMANDS_H_
