// NearestName: the suggestion in "unknown key; did you mean ...?", for a name that an operator
// mistyped.
#ifndef EOIB_VSWITCH_BASE_DAEMON_NEAREST_NAME_H_
#define EOIB_VSWITCH_BASE_DAEMON_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace eoib {

// The Levenshtein distance, ignoring case and taking '-' and '_' for the same.
size_t EditDistance(absl::string_view a, absl::string_view b);

// The known name that `text` was probably meant to be: the nearest one (of several, the first), if
// at least half of it is right; else "".
std::string NearestName(absl::string_view text, const std::vector<std::string>& names);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_NEAREST_NAME_H_
