// AwaitAgent: makes an agent, and where that fails because its HCA is not there (yet, or while its driver is loaded anew) tries
// again once a second until it is, with the control socket in service.
#ifndef EOIB_CONTROL_AGENT_WAIT_H_
#define EOIB_CONTROL_AGENT_WAIT_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "control/agent.h"
#include "control/command_registry.h"
#include "control/event_loop.h"

namespace eoib {

using AgentMaker = std::function<absl::StatusOr<std::unique_ptr<Agent>>()>;

// Runs `loop` while it waits; kCancelled if somebody stops the loop. What no waiting heals (kInvalidArgument,
// kFailedPrecondition) is returned at once. Meanwhile the command "show" says what is waited for, and so does the log: when it
// changes, and once a minute. Control thread.
absl::StatusOr<std::unique_ptr<Agent>> AwaitAgent(const AgentMaker& make, CommandRegistry* commands, EventLoop* loop,
                                                  const Clock* clock);

}  // namespace eoib

#endif  // EOIB_CONTROL_AGENT_WAIT_H_
