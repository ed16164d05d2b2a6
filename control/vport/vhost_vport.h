// MakeVhostVPort: a vPort whose frames enter and leave through a vhost-user socket.
#ifndef EOIB_CONTROL_VPORT_VHOST_VPORT_H_
#define EOIB_CONTROL_VPORT_VHOST_VPORT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/vport/vport.h"

namespace eoib {

// A vPort of type "vhost-user" for `workers` workers. Errors as LoadVhostLibrary and
// VhostPort::Open.
absl::StatusOr<VPort> MakeVhostVPort(const VPortConfig& config, size_t workers);

// An error if a vPort is of that type and the vhost-user library is not installed.
absl::Status CheckVhostInstalled(const AgentConfig& config);

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_VHOST_VPORT_H_
