// OpenTap: creates or takes over a TAP and returns its descriptors.
#ifndef EOIB_VSWITCH_PORT_OPEN_TAP_H_
#define EOIB_VSWITCH_PORT_OPEN_TAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/port/tap_finder.h"

namespace eoib {

struct OpenedTap {
  UniqueFd fd;
  bool is_new = false;   // it was made now
  bool is_ours = false;  // it was made for this `alias`, now or by a former process
};

// Opens a TAP netdev that no process has open: the one that has the alias `alias`, whatever its
// name and namespace are now; else the one of that name; else makes one. An empty alias identifies
// nothing. `finder` may be null: then it looks in this namespace only. Errors as TapPort::Open.
absl::StatusOr<OpenedTap> OpenTap(const std::string& name, const std::string& alias,
                                  TapFinder* finder);

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_OPEN_TAP_H_
