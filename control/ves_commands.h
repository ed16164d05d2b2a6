// The operator's view of the VESes of an agent: the commands stats and drops, and text for show. peer_commands.h has the view
// of other agents.
#ifndef EOIB_CONTROL_VES_COMMANDS_H_
#define EOIB_CONTROL_VES_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/daemon/command_registry.h"
#include "control/ves.h"

namespace eoib {

// Finds VESes by name. An empty name finds all; the error for an unknown name lists them.
using VesFinder = std::function<absl::StatusOr<std::vector<Ves*>>(const std::string& name)>;

// The handler of a command [VES]: the text of that VES, or of all.
CommandRegistry::Handler ForVeses(const VesFinder& finder, std::function<std::string(const Ves&)> text);

void RegisterVesCommands(const VesFinder& finder, CommandRegistry* registry);

// The VES, its flood group and its vPorts.
std::string ShowVes(const Ves& ves);

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_COMMANDS_H_
