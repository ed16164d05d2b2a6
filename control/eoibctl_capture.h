// `eoibctl capture start -`: a capture that goes to standard output.
#ifndef EOIB_CONTROL_EOIBCTL_CAPTURE_H_
#define EOIB_CONTROL_EOIBCTL_CAPTURE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "vswitch/base/daemon/command_client.h"

namespace eoib {

// Runs a command; nullopt if there is no answer, after printing why.
using Caller = std::function<absl::optional<CommandReply>(
    const std::string& method, const std::vector<std::string>& arguments)>;

// Makes a fifo in a private directory beside the program's `socket`, has the program capture to it,
// and copies it to standard output. Ends with SIGINT or SIGTERM, with the reader of standard
// output, and with the capture; ends the capture then. So the program depends neither on the
// reader's speed nor on this process. Returns the exit status.
int StreamCapture(const std::string& socket, const std::vector<std::string>& options,
                  const Caller& call);

}  // namespace eoib

#endif  // EOIB_CONTROL_EOIBCTL_CAPTURE_H_
