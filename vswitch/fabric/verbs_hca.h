// OpenVerbsHca (hca.h) with what it works on given, so that tests can play devices that no test machine has.
#ifndef EOIB_VSWITCH_FABRIC_VERBS_HCA_H_
#define EOIB_VSWITCH_FABRIC_VERBS_HCA_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/umad_transport.h"

namespace eoib {

struct VerbsHcaParts {
  const VerbsTable* verbs;  // valid for the life of the process
  std::function<absl::StatusOr<std::unique_ptr<MadTransport>>(const std::string& device, uint8_t port,
                                                              UmadTransport::FindSm find_sm)>
      open_mads;
};

// kInvalidArgument: not of the form DEVICE/PORT. kNotFound: no such device, listing those there are, or no such port of it.
// kFailedPrecondition: no port for us (iWARP and such).
absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port, const VerbsHcaParts& parts);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_VERBS_HCA_H_
