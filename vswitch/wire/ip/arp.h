// ARP and RARP packets for IPv4 (RFC 826, RFC 903), on both links: Ethernet, and IPoIB (RFC 4391
// §9.2).
//
// The two forms differ in hardware type and in the length of a link-layer address. Each has a
// separate address type, so a packet never gets addresses of the other link.
#ifndef EOIB_VSWITCH_WIRE_IP_ARP_H_
#define EOIB_VSWITCH_WIRE_IP_ARP_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib {

// The first two belong to EtherType 0x0806, the others to 0x8035.
enum class ArpOperation : uint16_t {
  kRequest = 1,
  kReply = 2,
  kReverseRequest = 3,
  kReverseReply = 4
};

template <typename LinkAddress>
struct ArpPacket {
  static constexpr size_t kSize = 8 + 2 * (LinkAddress::kSize + Ipv4Addr::kSize);

  ArpOperation operation = ArpOperation::kRequest;
  LinkAddress sender;
  Ipv4Addr sender_ip;
  // Meaningless in a request: mostly zero, but `arping -U` sends the broadcast address.
  LinkAddress target;
  Ipv4Addr target_ip;

  friend constexpr bool operator==(const ArpPacket&, const ArpPacket&) = default;
};
using EthernetArp = ArpPacket<MacAddr>;    // hardware type 1: 28 bytes
using IpoibArp = ArpPacket<IpoibAddress>;  // hardware type 32: 56 bytes
static_assert(EthernetArp::kSize == 28 && IpoibArp::kSize == 56);

// Reads the packet at the start of `payload`, which follows the EtherType of a frame or the IPoIB
// header. The rest of `payload` is padding. Nothing if the packet is truncated, or its hardware
// type, protocol type (IPv4), lengths or operation are not the expected ones.
absl::optional<EthernetArp> ParseEthernetArp(absl::Span<const uint8_t> payload) noexcept;
absl::optional<IpoibArp> ParseIpoibArp(absl::Span<const uint8_t> payload) noexcept;

// Writes the packet to the start of `out`. False, with nothing written, if `out` is shorter than
// kSize.
bool EncodeArp(const EthernetArp& packet, absl::Span<uint8_t> out) noexcept;
bool EncodeArp(const IpoibArp& packet, absl::Span<uint8_t> out) noexcept;

// The purpose of a packet.
enum class ArpPurpose : uint8_t {
  kRequest,         // who has target_ip?
  kReply,           // sender_ip is at sender
  kProbe,           // is target_ip in use? The sender does not claim it yet (RFC 5227 §2.1.1)
  kGratuitous,      // unsolicited: request (RFC 5227 §2.3) or reply with two equal IP addresses
  kReverseRequest,  // which IP address has target?
  kReverseReply,    // target has target_ip
};
ArpPurpose PurposeOf(ArpOperation operation, Ipv4Addr sender_ip, Ipv4Addr target_ip) noexcept;
template <typename LinkAddress>
ArpPurpose PurposeOf(const ArpPacket<LinkAddress>& packet) noexcept {
  return PurposeOf(packet.operation, packet.sender_ip, packet.target_ip);
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_ARP_H_
