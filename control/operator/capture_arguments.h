// The arguments of the command capture/start.
#ifndef EOIB_CONTROL_OPERATOR_CAPTURE_ARGUMENTS_H_
#define EOIB_CONTROL_OPERATOR_CAPTURE_ARGUMENTS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/fabric/capture_options.h"

namespace eoib {

inline constexpr char kCaptureUsage[] =
    "PATH [vport=NAME] [mac=MAC] [vlan=VLAN] [snaplen=BYTES] [limit=SIZE] [--force]";

struct CaptureArguments {
  CaptureOptions options;
  bool overwrite = false;  // --force
};

// The filter for the frames of a vPort. kNotFound names the existing ones.
using VPortFilterFinder =
    std::function<absl::StatusOr<CaptureFilter::VPort>(const std::string& name)>;

// kInvalidArgument says which argument is wrong and how to write it.
absl::StatusOr<CaptureArguments> ParseCaptureArguments(const CommandRegistry::Arguments& arguments,
                                                       const VPortFilterFinder& vports);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_CAPTURE_ARGUMENTS_H_
