// MachineBinding: binds a state file to the machine, so that a copy of the disk is noticed.
#ifndef EOIB_CONTROL_STATE_MACHINE_BINDING_H_
#define EOIB_CONTROL_STATE_MACHINE_BINDING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace eoib {

inline constexpr char kMachineIdPath[] = "/etc/machine-id";

// The machine-id (machine-id(5)) in the file at `path`; empty if the machine has none (yet).
std::string ReadMachineId(const std::string& path);

// A salted hash of the machine-id, by crypt(3), because the id is confidential. `salt` has 1 to 16
// letters and digits.
std::string BindToMachine(const std::string& machine_id, absl::string_view salt);

// Whether `binding` is of another machine. Without a machine-id or a binding that is not known, so
// false.
bool IsOfAnotherMachine(const std::string& binding, const std::string& machine_id);

}  // namespace eoib

#endif  // EOIB_CONTROL_STATE_MACHINE_BINDING_H_
