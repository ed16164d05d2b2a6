// The files of a subnet's partitions: NAME.toml, its drop-ins NAME.d/*.toml, and NAME.d/saved.toml,
// which SaveSubnetConfig writes and which is read last. A partition of a later file replaces the
// one with the same P_Key of an earlier file.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_FILES_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vswitch/fabric/softhca/subnet/subnet_config.h"

namespace eoib::softhca {

// kNotFound if there is no file at `path`; kInvalidArgument as ParseSubnetConfig.
absl::StatusOr<SubnetConfig> LoadSubnetConfig(const std::string& path);

// Writes saved.toml so that a load gives `partitions`, or removes it if the other files do. The
// other files stay as they are. Returns the path of saved.toml.
absl::StatusOr<std::string> SaveSubnetConfig(const std::string& path,
                                             const std::vector<Partition>& partitions);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SUBNET_CONFIG_FILES_H_
