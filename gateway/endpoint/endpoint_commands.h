// What the control socket of eoib-ipoib can be asked: show, neigh, groups, stats, drops.
#ifndef EOIB_GATEWAY_ENDPOINT_ENDPOINT_COMMANDS_H_
#define EOIB_GATEWAY_ENDPOINT_ENDPOINT_COMMANDS_H_

#include <string>

#include "control/command_registry.h"
#include "gateway/endpoint/ip_host.h"

namespace eoib::endpoint {

// Texts for an operator. The link, and each address with where it is from and whether it is used; a duplicate with who has it.
std::string ShowHost(const IpHost& host);
// Each neighbour: IP address, link-layer address, state, when it was last heard, packets that wait for it.
std::string ShowNeighbors(const IpHost& host);
// The multicast groups of IP that are listened to, each with its MGID.
std::string ShowGroups(const IpHost& host);
std::string ShowStats(const IpHost& host);
std::string ShowDrops(const IpHost& host);

// `host` stays the caller's, and outlives the commands. `more` is added to what show says.
void RegisterHostCommands(const IpHost* host, std::function<std::string()> more, CommandRegistry* registry);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_ENDPOINT_COMMANDS_H_
