// The client side of the control socket, as eoibctl uses it.
#ifndef EOIB_CONTROL_DAEMON_COMMAND_CLIENT_H_
#define EOIB_CONTROL_DAEMON_COMMAND_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace eoib {

struct CommandReply {
  bool is_error = false;  // the program refused the command, or it failed; `text` says why
  std::string text;       // ends with a newline, unless empty
};

// The socket of a program: `target` itself if it contains a slash, else RUNDIR/TARGET.ctl.
std::string ControlSocketPath(absl::string_view target, absl::string_view rundir);

// Connects to the control socket at `path`, runs one command, and returns the program's answer. An error means that there is
// no answer; its message says whether the program runs and what to do. kDeadlineExceeded after `timeout`. Blocks; thread-safe.
absl::StatusOr<CommandReply> CallCommand(const std::string& path, const std::string& method,
                                         const std::vector<std::string>& arguments, absl::Duration timeout);

}  // namespace eoib

#endif  // EOIB_CONTROL_DAEMON_COMMAND_CLIENT_H_
