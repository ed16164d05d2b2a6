// The commands and metrics of an agent: those of its HCA port, and of all its VESes.
#ifndef EOIB_CONTROL_OPERATOR_AGENT_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_AGENT_COMMANDS_H_

#include "control/agent.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/metric_set.h"

namespace eoib {

// show, fdb/..., peers, vport/list, stats, drops, hca, capture/start, capture/stop. The registry
// must not run them after the agent is gone.
void RegisterAgentCommands(Agent* agent, CommandRegistry* registry);

// The HCA port, VESes and vPorts. The registry must not collect after the agent is gone.
void RegisterAgentMetrics(const Agent* agent, MetricRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_AGENT_COMMANDS_H_
