// FabricCommands: eoib-fabricd's commands that show and change its subnet. fault_commands.h has those for faults and counters.
// Part of the daemon's main, but separate so that tests can use it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_COMMANDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "control/daemon/command_registry.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/lid_file.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// Thread: the one that runs the server. The arguments outlive the object, and the object outlives the registry's last command.
class FabricCommands {
 public:
  // `lids` is null if LIDs are not kept.
  FabricCommands(Subnet* subnet, const FabricServer* server, const LidFile* lids)
      : subnet_(subnet), server_(server), lids_(lids) {}

  void Register(CommandRegistry* registry);

 private:
  using Arguments = CommandRegistry::Arguments;
  using Answer = absl::StatusOr<std::string>;

  Answer Show() const;
  Answer Groups() const;
  Answer ShowSubscriptions() const;
  Answer Rings() const;
  Answer Link(const Arguments& arguments);
  Answer SetLid(const Arguments& arguments);
  Answer PartitionAdd(const Arguments& arguments);
  Answer PartitionRemove(const Arguments& arguments);
  Answer Sm(const Arguments& arguments);
  Answer MoveSm(const Arguments& arguments);

  Subnet* const subnet_;
  const FabricServer* const server_;
  const LidFile* const lids_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_COMMANDS_H_
