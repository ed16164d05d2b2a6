#ifndef EOIB_CONTROL_NEAREST_NAME_H_
#define EOIB_CONTROL_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace eoib {

// The Levenshtein distance, without regard to case; '-' and '_' are the same.
size_t EditDistance(absl::string_view a, absl::string_view b);

// The name that somebody who wrote `text` probably meant: the nearest one, the first of equals, if it is near enough that at
// least half of it is right; else "".
std::string NearestName(absl::string_view text, const std::vector<std::string>& names);

}  // namespace eoib

#endif  // EOIB_CONTROL_NEAREST_NAME_H_
