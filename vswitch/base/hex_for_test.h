// Bytes written as hex digits, for tests.
#ifndef EOIB_VSWITCH_BASE_HEX_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_HEX_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace eoib {

// Bytes from hex digits; ignores blanks and bars, which are for the reader.
inline std::vector<uint8_t> FromHex(absl::string_view hex) {
  const std::string bytes =
      absl::HexStringToBytes(absl::StrReplaceAll(hex, {{" ", ""}, {"|", ""}}));
  return {bytes.begin(), bytes.end()};
}

inline std::string ToHex(absl::Span<const uint8_t> bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_HEX_FOR_TEST_H_
