// The command `trace`: explains what the switch would do with a frame.
#ifndef EOIB_CONTROL_OPERATOR_TRACE_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_TRACE_COMMANDS_H_

#include "control/operator/ves_commands.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

void RegisterTraceCommand(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_TRACE_COMMANDS_H_
