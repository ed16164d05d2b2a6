// MakeNetdevVPort: a vPort whose frames enter and leave through an existing network interface.
#ifndef EOIB_CONTROL_VPORT_NETDEV_VPORT_H_
#define EOIB_CONTROL_VPORT_NETDEV_VPORT_H_

#include "absl/status/statusor.h"
#include "control/vport/vport.h"

namespace eoib {

// A vPort of type "netdev". Errors as NetdevPort::Open.
absl::StatusOr<VPort> MakeNetdevVPort(const VPortConfig& config);

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_NETDEV_VPORT_H_
