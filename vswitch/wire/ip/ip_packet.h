// IPv4 and IPv6 packets: parsed views whose lengths agree with each other and with the bytes.
//
// A node that forwards packets between links of different MTU, or answers for a host, needs more of
// a packet than a switch does: its end in the frame, whether it may be fragmented, and its content
// behind options and extension headers. ip_fragment.h, icmp_error.h, group_report.h and udp.h build
// on these views. They own nothing; the bytes belong to the caller.
#ifndef EOIB_VSWITCH_WIRE_IP_IP_PACKET_H_
#define EOIB_VSWITCH_WIRE_IP_IP_PACKET_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib {

inline constexpr size_t kMinIpv4Mtu = 68;    // RFC 791 §3.2: every link takes as much unfragmented
inline constexpr size_t kMinIpv6Mtu = 1280;  // RFC 8200 §5

// The part of a datagram that a packet carries.
struct IpFragment {
  // IPv4: 16 bits, in every packet; IPv6: 32 bits of the fragment header, else 0.
  uint32_t id = 0;
  size_t offset = 0;  // bytes
  bool more = false;  // another part follows

  bool IsWhole() const { return offset == 0 && !more; }
  // Has the header of its content; also true of a whole packet.
  bool IsFirst() const { return offset == 0; }

  friend constexpr bool operator==(const IpFragment&, const IpFragment&) = default;
};

struct Ipv4Packet {
  Ipv4Addr source;
  Ipv4Addr destination;
  uint8_t ttl = 0;
  uint8_t protocol = 0;
  bool dont_fragment = false;
  IpFragment fragment;
  absl::Span<const uint8_t> bytes;    // all of the packet, without padding behind it
  absl::Span<const uint8_t> options;  // of the header: 0 to 40 bytes, a multiple of 4
  absl::Span<const uint8_t> payload;  // behind the header

  absl::Span<const uint8_t> header() const { return bytes.first(bytes.size() - payload.size()); }
};

struct Ipv6Packet {
  Ipv6Addr source;
  Ipv6Addr destination;
  uint8_t hop_limit = 0;
  // The protocol of `payload`: the first that is not an extension header that is read here
  // (hop-by-hop options, routing, fragment, destination options: RFC 8200 §4). In a later fragment,
  // the next header of the fragment header.
  uint8_t protocol = 0;
  // Also in an atomic fragment, which is a whole packet (RFC 6946)
  bool has_fragment_header = false;
  IpFragment fragment;
  // True if the pseudo-header has the addresses above: no segments left (RFC 8200 §8.1), no home
  // address option (RFC 6275 §11.3.1).
  bool checksum_covers_addresses = true;
  absl::Span<const uint8_t> bytes;  // all of the packet, without padding behind it
  // Options of the hop-by-hop header, after its first two bytes; or empty.
  absl::Span<const uint8_t> hop_by_hop;
  absl::Span<const uint8_t> payload;  // behind the extension headers
  // False if there are more extension headers than kMaxIpv6Extensions; `protocol` is then that of
  // the first unread one.
  bool reached_payload = true;
};

// Parses the packet at the start of `bytes`; the rest is padding. Nothing if the version is not 4,
// the lengths of header or packet disagree or exceed the bytes, the header checksum is wrong, a
// fragment other than the last is not a multiple of 8 bytes, or a fragment reaches beyond 65,535
// bytes, the limit of a datagram (RFC 791 §3.1, §3.2).
absl::optional<Ipv4Packet> ParseIpv4Packet(absl::Span<const uint8_t> bytes) noexcept;

// The same for IPv6. Also nothing if an extension header reaches beyond the packet, even in a first
// fragment (RFC 7112 §5); if a hop-by-hop options header is not the first one (RFC 8200 §4.1); if
// there are two fragment headers, which no legitimate sender makes; and for a jumbogram (RFC 2675),
// which our links do not carry. Reads nothing behind the fragment header of a later fragment (RFC
// 8200 §4.5).
absl::optional<Ipv6Packet> ParseIpv6Packet(absl::Span<const uint8_t> bytes) noexcept;

// True if the hop-by-hop options have the router alert option of RFC 2711 §2.1 with this value (0:
// a message of MLD).
bool HasRouterAlert(const Ipv6Packet& packet, uint16_t value) noexcept;

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_PACKET_H_
