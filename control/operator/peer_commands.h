// The operator's view of the hosts of a VES: the command peers (other agents, and peers that
// announce nothing).
#ifndef EOIB_CONTROL_OPERATOR_PEER_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_PEER_COMMANDS_H_

#include "control/operator/ves_commands.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

void RegisterPeerCommands(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_PEER_COMMANDS_H_
