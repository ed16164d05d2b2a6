#include "vswitch/fabric/softhca/port_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace eoib::softhca {

absl::Status CheckPortName(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_.:-", absl::string_view(&c, 1));
  };
  if (!name.empty() && name.size() <= kMaxPortName && name != kAllPorts &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("port name \"", name, "\": must be 1 to ", kMaxPortName,
                   " letters, digits, \"_\", \".\", \":\" or \"-\", and not \"ALL\""));
}

}  // namespace eoib::softhca
