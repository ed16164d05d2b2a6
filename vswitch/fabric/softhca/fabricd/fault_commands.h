// FaultCommands: eoib-fabricd's commands that make ports simulate faults and that show the ports' counters.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FAULT_COMMANDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FAULT_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "control/daemon/command_registry.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// Parses "SOURCE DESTINATION [loss PPM] [duplicate PPM] [reorder PPM] [delay DURATION] [seed N]": names of ports, or * for
// any; a duration such as "2ms". kInvalidArgument names the wrong word.
absl::StatusOr<Fault> ParseFault(absl::Span<const std::string> words);
// Formats a fault in that form, without options at their defaults.
std::string FormatFault(const Fault& fault);

// Control thread only. `subnet` outlives the object, which outlives the registry.
class FaultCommands {
 public:
  explicit FaultCommands(Subnet* subnet) : subnet_(subnet) {}
  // Registers fault, fault/show, fault/clear and counters.
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

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FAULT_COMMANDS_H_
