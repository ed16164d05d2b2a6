// The operator's commands on the forwarding databases of an agent: fdb/show, get, stats, frozen,
// flush, thaw, add, del, monitor.
#ifndef EOIB_CONTROL_OPERATOR_FDB_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_FDB_COMMANDS_H_

#include "control/operator/ves_commands.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

void RegisterFdbCommands(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_FDB_COMMANDS_H_
