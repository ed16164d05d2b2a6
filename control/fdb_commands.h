// The operator's commands on the forwarding databases of an agent: fdb/show, stats, frozen, flush, thaw, add, del, monitor.
#ifndef EOIB_CONTROL_FDB_COMMANDS_H_
#define EOIB_CONTROL_FDB_COMMANDS_H_

#include <string>

#include "absl/types/optional.h"
#include "control/daemon/command_registry.h"
#include "control/ves_commands.h"
#include "fdb/fdb.h"

namespace eoib {

void RegisterFdbCommands(const VesFinder& finder, CommandRegistry* registry);

// A table of the entries after `after`. If there are many, the last line names the command for the rest, "more: fdb show blue
// 7 02:00:00:00:00:0a", so that one command does not keep the agent busy for long.
std::string ShowFdb(const Ves& ves, absl::optional<FdbKey> after = absl::nullopt);

}  // namespace eoib

#endif  // EOIB_CONTROL_FDB_COMMANDS_H_
