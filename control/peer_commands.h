// The operator's view of the hosts of a VES: the commands peers (other agents, and peers that announce nothing) and vport/show
// (the vPorts of all agents).
#ifndef EOIB_CONTROL_PEER_COMMANDS_H_
#define EOIB_CONTROL_PEER_COMMANDS_H_

#include "control/daemon/command_registry.h"
#include "control/ves_commands.h"

namespace eoib {

void RegisterPeerCommands(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_PEER_COMMANDS_H_
