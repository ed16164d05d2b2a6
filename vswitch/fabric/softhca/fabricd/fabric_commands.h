// eoib-fabricd's commands that show and change its subnet, and those for the files of its
// partitions. fault_commands.h has those for faults and counters. Part of the daemon's main, but
// separate so that tests can use it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_COMMANDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// The commands run in the server's thread. All arguments outlive the registry's last command.
// `lids` is null if LIDs are not kept.
void RegisterFabricCommands(Subnet* subnet, const FabricServer* server, const LidFile* lids,
                            CommandRegistry* registry);

// partition_commands.cc: reload, config diff|save|show, for the files of `path`
// (subnet_config_files.h). `subnet` outlives the registry.
void RegisterPartitionCommands(const std::string& path, Subnet* subnet, CommandRegistry* registry);

// Applies the files in place of the present partitions, or returns an error with nothing changed.
// Returns what changed. kFailedPrecondition if `path` is empty.
absl::StatusOr<Answer> ReloadPartitions(const std::string& path, Subnet* subnet);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_COMMANDS_H_
