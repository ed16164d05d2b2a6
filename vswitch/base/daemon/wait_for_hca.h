// WaitForHca: starts a program whose HCA may be missing, at boot or while its driver is reloaded.
#ifndef EOIB_VSWITCH_BASE_DAEMON_WAIT_FOR_HCA_H_
#define EOIB_VSWITCH_BASE_DAEMON_WAIT_FOR_HCA_H_

#include <functional>

#include "absl/status/status.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/base/daemon/service_manager.h"

namespace eoib {

// Whether an error at the start of a program may go away by waiting. A wrong name, a missing
// permission or a request to stop does not. Inline: programs that embed the switch need it without
// the service manager's library.
inline bool WaitingMayHelp(const absl::Status& error) {
  return !absl::IsInvalidArgument(error) && !absl::IsFailedPrecondition(error) &&
         !absl::IsCancelled(error);
}

// Calls `start` once a second until it succeeds, and runs `loop` in between. Returns kCancelled if
// the loop is stopped, and an error that waiting does not mend at once. The command "show" gives
// the last error; the log has it when it changes and once a minute. The service manager is told
// that the program is ready, or boot would wait, and has the error as its status. Control thread.
absl::Status WaitForHca(const std::function<absl::Status()>& start, CommandRegistry* commands,
                        EventLoop* loop, ServiceManager* service_manager);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_WAIT_FOR_HCA_H_
