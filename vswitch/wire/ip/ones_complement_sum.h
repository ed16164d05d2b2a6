// The sum under all checksums of the internet protocols (RFC 1071), and that of the pseudo-header.
#ifndef EOIB_VSWITCH_WIRE_IP_ONES_COMPLEMENT_SUM_H_
#define EOIB_VSWITCH_WIRE_IP_ONES_COMPLEMENT_SUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// The one's-complement sum (RFC 1071) of `bytes` as network-order words, folded to 16 bits, not
// inverted, continued from `initial`. In host order. An odd last byte counts as the high half of a
// word.
uint16_t OnesComplementSum(absl::Span<const uint8_t> bytes, uint32_t initial = 0) noexcept;
// The same, and copies `bytes` to `to`. Reads each byte once, so the sum is that of the copy even
// if others write `bytes`.
uint16_t CopyAndSum(absl::Span<const uint8_t> bytes, uint8_t* to) noexcept;
// The sum of bytes that include their right checksum: minus zero (RFC 1071 §1).
inline constexpr uint16_t kRightSum = 0xffff;

// The sum of the pseudo-header, to continue with OnesComplementSum over the message: RFC 9293 §3.1,
// RFC 768; RFC 8200 §8.1. `addresses`: the source and the destination, as in the IP header.
// `length`: that of the message.
inline uint16_t PseudoHeaderSum(absl::Span<const uint8_t> addresses, uint8_t protocol,
                                size_t length) noexcept {
  return OnesComplementSum(addresses, protocol + static_cast<uint32_t>(length));
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_ONES_COMPLEMENT_SUM_H_
