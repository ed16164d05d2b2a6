// The names of a software subnet's ports, as used in registrations, in the partition file and in
// commands.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_NAME_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_NAME_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace eoib::softhca {

inline constexpr absl::string_view kAllPorts = "ALL";  // every port; no port may have this name
inline constexpr size_t kMaxPortName = 63;

// kInvalidArgument unless it is [A-Za-z0-9_.:-]{1,63} and not "ALL".
absl::Status CheckPortName(absl::string_view name);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PORT_NAME_H_
