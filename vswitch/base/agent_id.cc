#include "vswitch/base/agent_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace eoib {

absl::StatusOr<AgentId> AgentId::Parse(absl::string_view text) {
  const std::string digits = absl::StrReplaceAll(text, {{"-", ""}});
  const bool all_hex = std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit);
  AgentId id;
  if (digits.size() == 2 * kSize && all_hex) {
    const std::string bytes = absl::HexStringToBytes(digits);
    std::copy(bytes.begin(), bytes.end(), id.bytes_.begin());
  }
  if (id.IsZero()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::CHexEscape(text), "\" is no agent id; it has 32 hex digits and is not zero"));
  }
  return id;
}

std::string AgentId::ToString() const {
  const std::string hex = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes_.data()), kSize));
  const absl::string_view digits = hex;
  return absl::StrCat(digits.substr(0, 8), "-", digits.substr(8, 4), "-", digits.substr(12, 4), "-",
                      digits.substr(16, 4), "-", digits.substr(20));
}

std::string AgentId::ToShortString() const { return ToString().substr(0, 8); }

}  // namespace eoib
