// Commands of eoib-ipoib's control socket: show, neigh, groups, stats, drops.
#ifndef EOIB_GATEWAY_ENDPOINT_ENDPOINT_COMMANDS_H_
#define EOIB_GATEWAY_ENDPOINT_ENDPOINT_COMMANDS_H_

#include <string>

#include "control/daemon/command_registry.h"
#include "gateway/endpoint/ip_host.h"

namespace eoib::endpoint {

// Texts for the operator.
std::string ShowHost(const IpHost& host);
std::string ShowNeighbors(const IpHost& host);
std::string ShowGroups(const IpHost& host);
std::string ShowStats(const IpHost& host);

// `host` outlives the commands. `show` appends the text of `more`.
void RegisterHostCommands(const IpHost* host, std::function<std::string()> more, CommandRegistry* registry);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_ENDPOINT_COMMANDS_H_
