// The operator's view of paths: the command neigh, with the address handle to each port where there
// are peers of a VES.
#ifndef EOIB_CONTROL_OPERATOR_NEIGHBOR_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_NEIGHBOR_COMMANDS_H_

#include "control/operator/ves_commands.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

void RegisterNeighborCommands(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_NEIGHBOR_COMMANDS_H_
