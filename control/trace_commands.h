// The operator's question what the switch does with a frame: the command trace.
#ifndef EOIB_CONTROL_TRACE_COMMANDS_H_
#define EOIB_CONTROL_TRACE_COMMANDS_H_

#include "control/daemon/command_registry.h"
#include "control/ves_commands.h"

namespace eoib {

void RegisterTraceCommand(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_TRACE_COMMANDS_H_
