// UDP datagrams in IPv4 packets (RFC 768), for DHCP, which must work before there is an address.
#ifndef EOIB_VSWITCH_WIRE_IP_UDP_H_
#define EOIB_VSWITCH_WIRE_IP_UDP_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib {

struct UdpDatagram {
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  absl::Span<const uint8_t> payload;
};

// The datagram in `packet`. Nothing if it has another protocol or is a fragment, its length is not
// the packet's, or its checksum is wrong. Accepts a datagram without a checksum.
absl::optional<UdpDatagram> ParseUdp(const Ipv4Packet& packet) noexcept;

inline constexpr size_t kUdp4HeadersSize = 28;  // of IPv4 without options and of UDP

struct Udp4Headers {
  Ipv4Addr source;
  Ipv4Addr destination;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t id = 0;  // IP id: the packet may be fragmented; unique for a while (RFC 6864 §4)
  uint8_t ttl = 64;
};

// Writes a whole IPv4 packet, with its checksums, to the start of `out` and returns it. Returns
// nothing, and writes nothing, if it does not fit into `out` or into a packet. `payload` may
// already be in place, at kUdp4HeadersSize.
absl::Span<const uint8_t> BuildUdp4(const Udp4Headers& headers, absl::Span<const uint8_t> payload,
                                    absl::Span<uint8_t> out) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_UDP_H_
