// IPv4 and IPv6 headers, as far as a switch reads them.
#ifndef EOIB_VSWITCH_WIRE_IP_IP_HEADERS_H_
#define EOIB_VSWITCH_WIRE_IP_IP_HEADERS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib {

// RFC 791 §3.1.
struct Ipv4Wire {
  uint8_t version_ihl = 0;
  uint8_t tos = 0;
  be16 total_length;
  be16 id;
  be16 fragment;  // flags 3 | offset 13
  uint8_t ttl = 0;
  uint8_t protocol = 0;
  be16 checksum;
  be32 source;
  be32 destination;
};
static_assert(sizeof(Ipv4Wire) == 20);
inline constexpr size_t kIpv4AddressesOffset = 12;
inline constexpr size_t kIpv4AddressesSize = 8;  // source and destination

// RFC 8200 §3.
struct Ipv6Wire {
  be32 version_class_flow;
  be16 payload_length;
  uint8_t next_header = 0;
  uint8_t hop_limit = 0;
  std::array<uint8_t, 16> source{};
  std::array<uint8_t, 16> destination{};
};
static_assert(sizeof(Ipv6Wire) == 40);
inline constexpr size_t kIpv6AddressesOffset = 8;
inline constexpr size_t kIpv6AddressesSize = 32;

// The common start of IPv6 hop-by-hop, routing and destination options headers (RFC 8200 §4).
struct Ipv6ExtensionWire {
  uint8_t next_header = 0;
  uint8_t length = 0;  // in units of 8 bytes, the first not counted
  uint8_t routing_type = 0;
  uint8_t segments_left = 0;
};
static_assert(sizeof(Ipv6ExtensionWire) == 4);

// The IPv6 fragment header (RFC 8200 §4.5).
struct Ipv6FragmentWire {
  uint8_t next_header = 0;
  uint8_t reserved = 0;
  be16 offset;  // offset 13, in units of 8 bytes | reserved 2 | more 1
  be32 id;
};
static_assert(sizeof(Ipv6FragmentWire) == 8);

inline constexpr uint8_t kProtocolHopByHop = 0;
inline constexpr uint8_t kProtocolIcmp = 1;
inline constexpr uint8_t kProtocolIgmp = 2;
inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kProtocolUdp = 17;
inline constexpr uint8_t kProtocolRouting = 43;
inline constexpr uint8_t kProtocolFragment = 44;
inline constexpr uint8_t kProtocolIcmpv6 = 58;
inline constexpr uint8_t kProtocolDestinationOptions = 60;
inline constexpr uint8_t kProtocolSctp = 132;
inline constexpr size_t kUdpHeaderSize = 8;
inline constexpr size_t kUdpLengthOffset = 4;
inline constexpr size_t kMaxIpPacket = 0xffff;  // for both versions: IPv6 without jumbograms
inline constexpr size_t kFragmentUnit = 8;
inline constexpr uint16_t kIpv4DontFragment = 0x4000;
inline constexpr uint16_t kIpv4MoreFragments = 0x2000;
inline constexpr uint16_t kIpv4OffsetMask = 0x1fff;  // in units of 8 bytes
inline constexpr uint16_t kIpv4MoreFragmentsOrOffset = 0x3fff;
// Extension headers that are read; the rest is unknown.
inline constexpr int kMaxIpv6Extensions = 8;

// Headers without options; `total` and `payload` are lengths in bytes. The IPv4 checksum is left to
// WriteIpv4Checksum.
inline Ipv4Wire MakeIpv4Header(uint8_t protocol, uint8_t ttl, Ipv4Addr source, Ipv4Addr destination,
                               size_t total) {
  Ipv4Wire header;
  header.version_ihl = 4 << 4 | sizeof(header) / 4;
  header.total_length = static_cast<uint16_t>(total);
  header.ttl = ttl;
  header.protocol = protocol;
  header.source = source.value();
  header.destination = destination.value();
  return header;
}
inline Ipv6Wire MakeIpv6Header(uint8_t next_header, uint8_t hop_limit, const Ipv6Addr& source,
                               const Ipv6Addr& destination, size_t payload) {
  Ipv6Wire header;
  header.version_class_flow = 6u << 28;
  header.payload_length = static_cast<uint16_t>(payload);
  header.next_header = next_header;
  header.hop_limit = hop_limit;
  header.source = source.bytes();
  header.destination = destination.bytes();
  return header;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_HEADERS_H_
