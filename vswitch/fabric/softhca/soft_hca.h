// SoftHca: a port of the software fabric as an Hca.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_HCA_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_HCA_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/softhca/soft_port.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// Registers port `name` through `link` and opens it. The Hca owns link, port and context; destroy
// the objects of its verbs first. kAlreadyExists if another living process owns the port.
absl::StatusOr<std::unique_ptr<Hca>> OpenSoftHca(
    std::unique_ptr<SubnetLink> link, const std::string& name,
    const SoftPort::Options& options = SoftPort::Options());

// The port of an Hca that OpenSoftHca opened, for its counters. Null for any other Hca.
SoftPort* SoftPortOf(const Hca& hca);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_HCA_H_
