// CRC32c, the checksum of SCTP (RFC 9260 Appendix A).
#ifndef EOIB_VSWITCH_WIRE_IP_CRC32C_H_
#define EOIB_VSWITCH_WIRE_IP_CRC32C_H_

#include <cstdint>

#include "absl/types/span.h"

namespace eoib {

// The CRC32c of `bytes`; or, with `before` that of other bytes, the CRC32c of those and `bytes`
// behind them. SCTP has its least significant byte first.
uint32_t Crc32c(absl::Span<const uint8_t> bytes, uint32_t before = 0) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_CRC32C_H_
