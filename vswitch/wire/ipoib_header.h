// The IPoIB encapsulation header: four bytes before each IP or ARP packet in a UD datagram (RFC
// 4391 §6). See wire_format.md.
#ifndef EOIB_VSWITCH_WIRE_IPOIB_HEADER_H_
#define EOIB_VSWITCH_WIRE_IPOIB_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/ethertype.h"

namespace eoib {

// The link MTU is the broadcast group's MTU minus this (RFC 4391 §7).
inline constexpr size_t kIpoibHeaderSize = 4;

// The types of RFC 4391 §6, table 1. The RFC leaves out other EtherTypes, and so do we.
enum class IpoibType : uint16_t {
  kIpv4 = kEtherTypeIpv4,
  kArp = kEtherTypeArp,
  kRarp = kEtherTypeRarp,
  kIpv6 = kEtherTypeIpv6,
};

// Reads the header at the start of `datagram` (a UD payload without GRH). Nothing if it is too
// short or has another type. Ignores the reserved field (§6), because some senders set it.
absl::optional<IpoibType> DecodeIpoibHeader(absl::Span<const uint8_t> datagram) noexcept;

// Writes kIpoibHeaderSize bytes, the reserved field as zero.
void EncodeIpoibHeader(IpoibType type, uint8_t* out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IPOIB_HEADER_H_
