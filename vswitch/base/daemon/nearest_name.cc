#include "vswitch/base/daemon/nearest_name.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"

namespace eoib {
namespace {

// No known name is longer. Bounds the cost of a comparison, whatever is in an operator's file.
constexpr size_t kLongest = 64;

char Fold(char c) { return c == '-' ? '_' : absl::ascii_tolower(c); }

}  // namespace

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (Fold(a[i]) == Fold(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

std::string NearestName(absl::string_view text, const std::vector<std::string>& names) {
  if (text.size() > kLongest) return "";
  std::string nearest;
  size_t least = kLongest;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(text, name);
    // A suggestion that is less than half right would mislead.
    if (distance < least && 2 * distance <= name.size()) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace eoib
