// The sum under all checksums of the internet protocols (RFC 1071).
#ifndef EOIB_VSWITCH_WIRE_IP_ONES_COMPLEMENT_SUM_H_
#define EOIB_VSWITCH_WIRE_IP_ONES_COMPLEMENT_SUM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// The one's-complement sum (RFC 1071) of `bytes` as network-order words, folded to 16 bits, not inverted, continued from
// `initial`. In host order. An odd last byte counts as the high half of a word.
uint16_t OnesComplementSum(absl::Span<const uint8_t> bytes, uint32_t initial = 0) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_ONES_COMPLEMENT_SUM_H_
