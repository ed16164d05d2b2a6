// OpenVerbsHca (hca.h) with its dependencies as parameters, so that tests can simulate devices.
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
  std::function<absl::StatusOr<std::unique_ptr<MadTransport>>(
      const std::string& device, uint8_t port, UmadTransport::FindSm find_sm)>
      open_mads;
};

// kInvalidArgument: not of the form DEVICE/PORT. kNotFound: no such device (the message lists the
// devices) or no such port of it. kFailedPrecondition: neither InfiniBand nor RoCE (iWARP, for
// example).
absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port,
                                                  const VerbsHcaParts& parts);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_VERBS_HCA_H_
