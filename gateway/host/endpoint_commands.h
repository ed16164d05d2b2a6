// Commands of eoib-ipoib's control socket: show, neigh, groups, stats, drops.
#ifndef EOIB_GATEWAY_HOST_ENDPOINT_COMMANDS_H_
#define EOIB_GATEWAY_HOST_ENDPOINT_COMMANDS_H_

#include <functional>

#include "gateway/host/ip_host.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib::endpoint {

// {"from_tun": 7, ...}
Json StatsJson(const IpHost& host);

// `host` outlives the commands. `show` has the keys of `more`, too: "netdev" and "dhcp"
// (DhcpSession::ToJson).
void RegisterHostCommands(const IpHost* host, std::function<Json()> more,
                          CommandRegistry* registry);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_ENDPOINT_COMMANDS_H_
