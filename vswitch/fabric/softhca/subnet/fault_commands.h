// FaultCommands: the commands by which an operator makes ports simulate faults, and sees what ports count.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAULT_COMMANDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAULT_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "control/command_registry.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// "SOURCE DESTINATION [loss PPM] [duplicate PPM] [reorder PPM] [delay DURATION] [seed N]": ports' names, or * for any; a
// duration as "2ms". kInvalidArgument tells which word is not understood.
absl::StatusOr<Subnet::Fault> ParseFault(absl::Span<const std::string> words);
// The same the other way, without what is not asked for.
std::string FormatFault(const Subnet::Fault& fault);

// Control thread only. `subnet` outlives it, and it the registry.
class FaultCommands {
 public:
  explicit FaultCommands(Subnet* subnet) : subnet_(subnet) {}
  // fault, fault/show, fault/clear, counters.
  void Register(CommandRegistry* registry);

 private:
  using Arguments = CommandRegistry::Arguments;
  using Answer = absl::StatusOr<std::string>;

  Answer Set(const Arguments& arguments);
  Answer Show() const;
  Answer Clear(const Arguments& arguments);
  Answer Counters(const Arguments& arguments) const;

  Subnet* const subnet_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FAULT_COMMANDS_H_
