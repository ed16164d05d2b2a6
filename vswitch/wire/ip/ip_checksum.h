// Checksums of whole IP packets: verification, writing, and incremental update. checksum.h has
// those of frames at the edge of the fabric, where a checksum may be unfinished; here they are
// complete.
#ifndef EOIB_VSWITCH_WIRE_IP_IP_CHECKSUM_H_
#define EOIB_VSWITCH_WIRE_IP_IP_CHECKSUM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib {

// The new checksum after one of the summed words changed from `before` to `after` (RFC 1624 §3,
// equation 3). A wrong checksum stays wrong. For UDP use UpdateUdpChecksum.
uint16_t UpdateChecksum(uint16_t checksum, uint16_t before, uint16_t after) noexcept;
// The same for UDP, where 0 means "no checksum" and stays 0, and a sum of 0 is written as 0xffff
// (RFC 768).
uint16_t UpdateUdpChecksum(uint16_t checksum, uint16_t before, uint16_t after) noexcept;

// Writes the checksum of an IPv4 header; `header` is the header with its options, at least 20
// bytes.
void WriteIpv4Checksum(absl::Span<uint8_t> header) noexcept;

enum class ChecksumVerdict : uint8_t {
  kRight,
  kWrong,  // also: the message is too short, or its UDP length is not the packet's
  // Nothing to verify: a fragment, a protocol without a checksum or unknown here, UDP over IPv4
  // without one, or other addresses in the pseudo-header (Ipv6Packet::checksum_covers_addresses)
  kUnknown,
};
// Verifies the checksum of TCP, UDP, ICMP or IGMP over IPv4; of TCP, UDP or ICMPv6 over IPv6, where
// UDP must have one (RFC 8200 §8.1).
ChecksumVerdict VerifyChecksum(const Ipv4Packet& packet) noexcept;
// The same for TCP and UDP, kUnknown for others, if the caller has the sum of `packet.bytes`
// already (ones_complement_sum.h).
ChecksumVerdict VerifyChecksum(const Ipv4Packet& packet, uint16_t sum) noexcept;
ChecksumVerdict VerifyChecksum(const Ipv6Packet& packet) noexcept;

// Writes that checksum into `packet`, an IPv4 or IPv6 packet from its header on. False, with
// nothing written, if VerifyChecksum has nothing to verify (except that it writes a UDP checksum
// that is 0), or if the packet or message is malformed.
bool WriteChecksum(absl::Span<uint8_t> packet) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_CHECKSUM_H_
