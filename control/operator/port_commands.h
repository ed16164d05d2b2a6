// The commands of an HCA port: hca, capture/start, capture/stop; and the port's part of `show`.
#ifndef EOIB_CONTROL_OPERATOR_PORT_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_PORT_COMMANDS_H_

#include <string>

#include "control/operator/capture_arguments.h"
#include "control/subnet/fabric_port.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

// The port, a capture, subscriptions; and the text of such an object.
Json PortJson(const FabricPort& port);
std::string PortText(const Json& shown);

// A program that has no vPorts to capture.
absl::StatusOr<CaptureFilter::VPort> FindNoVPort(const std::string& name);

// `vports` finds the vPort whose frames are captured. The registry must not run the commands after
// the port is gone.
void RegisterPortCommands(FabricPort* port, const VPortFilterFinder& vports,
                          CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_PORT_COMMANDS_H_
