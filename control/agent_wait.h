// AwaitAgent: makes an agent. While its HCA is missing (at boot, or while its driver is reloaded), retries once a second; the
// control socket answers meanwhile.
#ifndef EOIB_CONTROL_AGENT_WAIT_H_
#define EOIB_CONTROL_AGENT_WAIT_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "control/agent.h"
#include "control/daemon/command_registry.h"
#include "control/daemon/event_loop.h"

namespace eoib {

using AgentMaker = std::function<absl::StatusOr<std::unique_ptr<Agent>>()>;

// Runs `loop` while it waits; returns kCancelled if the loop is stopped. Errors that do not heal (kInvalidArgument,
// kFailedPrecondition) are returned at once. The command "show" gives the reason for waiting; the log repeats it when it
// changes and once a minute. Control thread.
absl::StatusOr<std::unique_ptr<Agent>> AwaitAgent(const AgentMaker& make, CommandRegistry* commands, EventLoop* loop,
                                                  const Clock* clock);

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_WAIT_H_
