// The shared object with the vhost-user library, which is an optional part of the build and a
// package of its own.
#ifndef EOIB_VSWITCH_PORT_VHOST_VHOST_LIBRARY_H_
#define EOIB_VSWITCH_PORT_VHOST_VHOST_LIBRARY_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vswitch/port/vhost/vhost_backend.h"

namespace eoib {

// Whether the shared object is there. kUnavailable says what to install.
absl::Status CheckVhostLibrary();

// Loads it and starts the library, on the first call. The backend lasts as long as the process.
absl::StatusOr<VhostBackend*> LoadVhostLibrary();

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_VHOST_LIBRARY_H_
