// AgentId: the identity of an agent, a random number of 128 bits that survives restarts.
#ifndef EOIB_VSWITCH_BASE_AGENT_ID_H_
#define EOIB_VSWITCH_BASE_AGENT_ID_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace eoib {

class AgentId {
 public:
  static constexpr size_t kSize = 16;
  using Bytes = std::array<uint8_t, kSize>;

  constexpr AgentId() = default;
  constexpr explicit AgentId(const Bytes& bytes) : bytes_(bytes) {}
  // "2f1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e9": 32 hex digits; hyphens may stand anywhere, case does
  // not matter. kInvalidArgument for any other text, and for an id of zeros.
  static absl::StatusOr<AgentId> Parse(absl::string_view text);

  constexpr const Bytes& bytes() const { return bytes_; }
  constexpr bool IsZero() const { return *this == AgentId(); }
  std::string ToString() const;       // in the form of a UUID (RFC 9562 §4)
  std::string ToShortString() const;  // its first eight digits, for tables and logs

  friend constexpr auto operator<=>(const AgentId&, const AgentId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AgentId& id) {
    return H::combine(std::move(h), id.bytes_);
  }

 private:
  Bytes bytes_{};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_AGENT_ID_H_
