// The client side of the control socket, as eoibctl uses it.
#ifndef EOIB_VSWITCH_BASE_DAEMON_COMMAND_CLIENT_H_
#define EOIB_VSWITCH_BASE_DAEMON_COMMAND_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "vswitch/base/daemon/control_socket_path.h"

namespace eoib {

struct CommandReply {
  bool is_error = false;  // the program refused the command, or it failed; `text` says why
  // Ends with a newline, unless empty; or JSON, if that was asked for and there is no error.
  std::string text;
};

enum class AnswerForm { kText, kJson };

// Connects to the control socket at `path`, runs one command, and returns the program's answer. An
// error means that there is no answer; its message says whether the program runs and what to do.
// kDeadlineExceeded after `timeout`. Blocks; thread-safe.
absl::StatusOr<CommandReply> CallCommand(const std::string& path, const std::string& method,
                                         const std::vector<std::string>& arguments,
                                         absl::Duration timeout,
                                         AnswerForm form = AnswerForm::kText);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_COMMAND_CLIENT_H_
