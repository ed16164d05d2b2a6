// IPv4 and IPv6 packets, read once and believed from then on: views whose lengths agree with each other and with the bytes.
//
// Who forwards packets between links of different MTU, or answers for a host, has to know more of them than a switch does:
// where the packet ends in its frame, whether it may be cut, what is in it behind options and extension headers. ip_fragment.h,
// icmp_error.h, group_report.h and udp.h begin where these views end. They own nothing; the bytes are the caller's.
#ifndef EOIB_VSWITCH_WIRE_IP_PACKET_H_
#define EOIB_VSWITCH_WIRE_IP_PACKET_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip_address.h"

namespace eoib {

inline constexpr size_t kMinIpv4Mtu = 68;    // RFC 791 §3.2: every link takes as much in one piece
inline constexpr size_t kMinIpv6Mtu = 1280;  // RFC 8200 §5

// Which part of a datagram a packet is.
struct IpFragment {
  uint32_t id = 0;    // 16 bits of IPv4, where every packet has one; 32 of an IPv6 fragment header, else 0
  size_t offset = 0;  // bytes
  bool more = false;  // another part follows

  bool IsWhole() const { return offset == 0 && !more; }
  bool IsFirst() const { return offset == 0; }  // has the header of what is in it; also true of a whole packet

  friend constexpr bool operator==(const IpFragment&, const IpFragment&) = default;
};

struct Ipv4Packet {
  Ipv4Addr source;
  Ipv4Addr destination;
  uint8_t tos = 0;
  uint8_t ttl = 0;
  uint8_t protocol = 0;
  bool dont_fragment = false;
  IpFragment fragment;
  absl::Span<const uint8_t> bytes;    // all of the packet, without padding behind it
  absl::Span<const uint8_t> options;  // of the header: 0 to 40 bytes, in whole units of 4
  absl::Span<const uint8_t> payload;  // behind the header

  absl::Span<const uint8_t> header() const { return bytes.first(bytes.size() - payload.size()); }
};

struct Ipv6Packet {
  Ipv6Addr source;
  Ipv6Addr destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  // What `payload` is: the first protocol that is not an extension header read here (hop-by-hop options, routing, fragment,
  // destination options: RFC 8200 §4). Of a later fragment, what the fragment header says of the first.
  uint8_t protocol = 0;
  bool has_fragment_header = false;  // also where the packet is a whole one (RFC 6946)
  IpFragment fragment;
  // The addresses of the pseudo-header are those above: no segments left to route (RFC 8200 §8.1), no home address option
  // (RFC 6275 §11.3.1).
  bool sums_own_addresses = true;
  absl::Span<const uint8_t> bytes;       // all of the packet, without padding behind it
  absl::Span<const uint8_t> hop_by_hop;  // options of the hop-by-hop header, behind its two bytes; empty without
  absl::Span<const uint8_t> payload;     // behind the extension headers
  // False if there are more extension headers than kMaxIpv6Extensions: `protocol` is that of the first not read.
  bool reads_to_the_end = true;
};

// Reads the packet at the start of `bytes`. What follows it there is padding. Nothing if the version is another; the lengths of
// header or packet disagree or reach beyond the bytes; the header checksum is wrong; a part of a datagram that others follow is
// no multiple of 8 bytes, or a part reaches beyond the 65,535 bytes that a datagram may have (RFC 791 §3.1, §3.2).
absl::optional<Ipv4Packet> ParseIpv4Packet(absl::Span<const uint8_t> bytes) noexcept;

// The same of IPv6. Nothing also if an extension header reaches beyond the packet, in a first fragment too (RFC 7112 §5); if
// hop-by-hop options are not the first of them (RFC 8200 §4.1), or there are two fragment headers, which no sender has a reason
// for; and of a jumbogram (RFC 2675), which no link of ours carries. What is behind the fragment header of a later fragment is
// not read (RFC 8200 §4.5).
absl::optional<Ipv6Packet> ParseIpv6Packet(absl::Span<const uint8_t> bytes) noexcept;

// True if the hop-by-hop options have the router alert option of RFC 2711 §2.1 with this value (0: a message of MLD).
bool HasRouterAlert(const Ipv6Packet& packet, uint16_t value) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_PACKET_H_
