// Opening the netdev of a TapPort.
#ifndef EOIB_VSWITCH_PORT_OPEN_TAP_H_
#define EOIB_VSWITCH_PORT_OPEN_TAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "vswitch/base/address.h"
#include "vswitch/base/unique_fd.h"

namespace eoib {

// Makes a TAP netdev of that name, or takes over one of that name and MAC that no process has open. Errors as TapPort::Open.
absl::StatusOr<UniqueFd> OpenTap(const std::string& name, MacAddr mac);

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_OPEN_TAP_H_
