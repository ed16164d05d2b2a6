// The operator's view of the VESes of an agent: the tables of commands on them, and the VES in
// show. vport_commands.h has the commands on vPorts.
#ifndef EOIB_CONTROL_OPERATOR_VES_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_VES_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/ves/ves.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

// Finds VESes by name. An empty name finds all; the error for an unknown name lists them.
using VesFinder = std::function<absl::StatusOr<std::vector<Ves*>>(const std::string& name)>;

// The handler of a command [VES]: {"veses": [...]} with the JSON of that VES, or of all, and its
// text, one VES after another.
CommandRegistry::Handler ForVeses(const VesFinder& finder, std::function<Json(const Ves&)> json,
                                  std::function<std::string(const Json& ves)> text);

void RegisterVesCommands(const VesFinder& finder, CommandRegistry* registry);
// fdb_commands.cc: the forwarding databases.
void RegisterFdbCommands(const VesFinder& finder, CommandRegistry* registry);
// peer_commands.cc: the other hosts (agents, and peers that announce nothing), and paths to them.
void RegisterPeerCommands(const VesFinder& finder, CommandRegistry* registry);
// check_commands.cc: what a ping needs.
void RegisterCheckCommand(const VesFinder& finder, const FabricPort* port,
                          CommandRegistry* registry);
// trace_commands.cc: what the switch would do with a frame.
void RegisterTraceCommand(const VesFinder& finder, CommandRegistry* registry);

// The VES, its flood group and its vPorts; and the text of such an object.
Json VesJson(const Ves& ves);
std::string VesText(const Json& ves);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_VES_COMMANDS_H_
