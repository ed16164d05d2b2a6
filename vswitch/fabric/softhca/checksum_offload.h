// Checksum offload, as HCAs have it for IPoIB (IBV_DEVICE_UD_IP_CSUM): the checksums of IPv4, and
// of TCP or UDP in it, in datagrams with an IPoIB header (RFC 4391 §6). An HCA verifies them of
// what it receives, and writes them into what it sends where the sender asks for it. All other
// datagrams stay as they are.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_CHECKSUM_OFFLOAD_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_CHECKSUM_OFFLOAD_H_

#include <cstdint>

#include "absl/types/span.h"

namespace eoib::softhca {

// Whether the IPoIB header says IPv4. A datagram of another kind has nothing to verify.
bool HasIpv4(absl::Span<const uint8_t> datagram) noexcept;
// Copies such a datagram to `to`, and sums it meanwhile. True if the packet is whole and all
// checksums are right (IBV_WC_IP_CSUM_OK). A sender may write the datagram meanwhile; the result is
// that of the copy.
bool CopyAndVerify(absl::Span<const uint8_t> datagram, uint8_t* to) noexcept;
// Writes the checksums of a datagram that is sent (IBV_SEND_IP_CSUM).
void WriteChecksums(absl::Span<uint8_t> datagram) noexcept;

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_CHECKSUM_OFFLOAD_H_
