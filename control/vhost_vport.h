// vPorts of virtual machines.
#ifndef EOIB_CONTROL_VHOST_VPORT_H_
#define EOIB_CONTROL_VHOST_VPORT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/vport.h"

namespace eoib {

// A vPort of type "vhost-user", for so many workers. Errors as LoadVhostLibrary and VhostPort::Open.
absl::StatusOr<VPort> MakeVhostVPort(const VPortConfig& config, size_t workers);

// An error if a vPort is of that type and the vhost-user library is not installed.
absl::Status CheckVhostInstalled(const AgentConfig& config);

}  // namespace eoib

#endif  // EOIB_CONTROL_VHOST_VPORT_H_
