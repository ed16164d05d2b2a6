// Checksums of whole IP packets: verified, written, and kept right when a few bytes change. checksum.h has those of frames at
// the edge of the fabric, where a sum may be unfinished; here packets have the sums that they need.
#ifndef EOIB_VSWITCH_WIRE_IP_CHECKSUM_H_
#define EOIB_VSWITCH_WIRE_IP_CHECKSUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/ip_address.h"
#include "vswitch/wire/ip_packet.h"

namespace eoib {

// The checksum field after bytes that it covers changed from `before` to `after`, two spans of one length that begin at an even
// offset of what is summed (RFC 1624 §3, equation 3). A sum that was wrong stays wrong. For a UDP field, see
// UpdateUdpChecksum.
uint16_t UpdateChecksum(uint16_t checksum, absl::Span<const uint8_t> before, absl::Span<const uint8_t> after) noexcept;
uint16_t UpdateChecksum(uint16_t checksum, uint16_t before, uint16_t after) noexcept;
// The same for UDP, where 0 says that there is no sum and stays 0, and a sum of 0 is written as 0xffff (RFC 768).
uint16_t UpdateUdpChecksum(uint16_t checksum, uint16_t before, uint16_t after) noexcept;

// The sum of the pseudo-header, to continue with OnesComplementSum over the message: RFC 9293 §3.1, RFC 768; RFC 8200 §8.1.
// `length` is that of the message behind.
uint16_t PseudoHeaderSum(Ipv4Addr source, Ipv4Addr destination, uint8_t protocol, size_t length) noexcept;
uint16_t PseudoHeaderSum(const Ipv6Addr& source, const Ipv6Addr& destination, uint8_t protocol, size_t length) noexcept;

// Writes the checksum of an IPv4 header; `header` is the header with its options, at least 20 bytes.
void WriteIpv4Checksum(absl::Span<uint8_t> header) noexcept;

enum class SumVerdict : uint8_t {
  kRight,
  kWrong,    // or the message is too short to have one, or a UDP length is not the packet's
  kUnknown,  // nothing to verify: a fragment, a protocol without one or not known here, UDP over IPv4 without a sum, other
             // addresses summed (Ipv6Packet::sums_own_addresses)
};
// Of TCP, UDP, ICMP and IGMP over IPv4; of TCP, UDP and ICMPv6 over IPv6, where UDP has to have one (RFC 8200 §8.1).
SumVerdict CheckSum(const Ipv4Packet& packet) noexcept;
SumVerdict CheckSum(const Ipv6Packet& packet) noexcept;

// Writes that sum into `packet`, an IPv4 or IPv6 packet from its header on. False, and nothing written, where CheckSum would
// know nothing to verify (but a UDP sum of 0 is written), and of what no parser accepts.
bool WriteSum(absl::Span<uint8_t> packet) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_CHECKSUM_H_
