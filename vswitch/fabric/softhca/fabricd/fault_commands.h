// eoib-fabricd's commands that make ports simulate faults and that show the ports' counters.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FAULT_COMMANDS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FAULT_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

// Parses "SOURCE DESTINATION [loss PPM] [duplicate PPM] [reorder PPM] [delay DURATION] [seed N]":
// names of ports, or * for any; a duration such as "2ms". kInvalidArgument names the wrong word.
absl::StatusOr<Fault> ParseFault(absl::Span<const std::string> words);
// Formats a fault in that form, without options at their defaults.
std::string FormatFault(const Fault& fault);

// Registers fault, fault/show, fault/clear and counters. `subnet` outlives the registry's last
// command.
void RegisterFaultCommands(Subnet* subnet, CommandRegistry* registry);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FAULT_COMMANDS_H_
