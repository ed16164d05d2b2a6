// The commands and metrics of an agent: those of its HCA port, and of all its VESes.
#ifndef EOIB_CONTROL_OPERATOR_AGENT_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_AGENT_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "control/agent.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/metric_set.h"

namespace eoib {

// A change of the configuration that the next start will not know of, and why: "vport add db0
// ves=blue", "temporary".
struct UnsavedCommand {
  std::string command, why;
};

// show, fdb/..., peers, vport/list, stats, drops, hca, capture/start, capture/stop. The registry
// must not run them after the agent is gone. `unsaved` may be missing: everything is saved.
void RegisterAgentCommands(Agent* agent, CommandRegistry* registry,
                           std::function<std::vector<UnsavedCommand>()> unsaved = {});

// The HCA port, VESes and vPorts. The registry must not collect after the agent is gone.
void RegisterAgentMetrics(const Agent* agent, MetricRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_AGENT_COMMANDS_H_
