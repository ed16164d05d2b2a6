// The commands of eoib-fabricd for the files of its partitions: reload, config diff|save|show.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_PARTITION_COMMANDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_PARTITION_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// Applies the files of `path` (subnet_config_files.h) in place of the present partitions, or
// returns an error with nothing changed. Returns what changed. kFailedPrecondition if `path` is
// empty.
absl::StatusOr<Answer> ReloadPartitions(const std::string& path, Subnet* subnet);

// `subnet` outlives the registry.
void RegisterPartitionCommands(const std::string& path, Subnet* subnet, CommandRegistry* registry);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_PARTITION_COMMANDS_H_
