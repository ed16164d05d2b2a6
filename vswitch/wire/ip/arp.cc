#include "vswitch/wire/ip/arp.h"

#include <array>

#include "vswitch/base/byte_order.h"
#include "vswitch/base/ethertype.h"

namespace eoib {
namespace {

// RFC 826, "Packet format".
template <typename LinkAddress>
struct ArpWire {
  be16 hardware_type;
  be16 protocol_type;
  uint8_t hardware_length = 0;
  uint8_t protocol_length = 0;
  be16 operation;
  std::array<uint8_t, LinkAddress::kSize> sender{};
  be32 sender_ip;
  std::array<uint8_t, LinkAddress::kSize> target{};
  be32 target_ip;
};
static_assert(sizeof(ArpWire<MacAddr>) == EthernetArp::kSize);
static_assert(sizeof(ArpWire<IpoibAddress>) == IpoibArp::kSize);

template <typename LinkAddress>
constexpr uint16_t kHardwareType = 0;
template <>
constexpr uint16_t kHardwareType<MacAddr> = 1;
template <>
constexpr uint16_t kHardwareType<IpoibAddress> = 32;  // RFC 4391 §9.2

bool IsKnown(uint16_t operation) {
  return operation >= static_cast<uint16_t>(ArpOperation::kRequest) &&
         operation <= static_cast<uint16_t>(ArpOperation::kReverseReply);
}

template <typename LinkAddress>
absl::optional<ArpPacket<LinkAddress>> Parse(absl::Span<const uint8_t> payload) {
  using Wire = ArpWire<LinkAddress>;
  if (payload.size() < sizeof(Wire)) return absl::nullopt;
  const auto wire = ReadWire<Wire>(payload.data());
  if (wire.hardware_type.value() != kHardwareType<LinkAddress> ||
      wire.protocol_type.value() != kEtherTypeIpv4) {
    return absl::nullopt;
  }
  if (wire.hardware_length != LinkAddress::kSize || wire.protocol_length != Ipv4Addr::kSize)
    return absl::nullopt;
  if (!IsKnown(wire.operation.value())) return absl::nullopt;
  ArpPacket<LinkAddress> packet;
  packet.operation = static_cast<ArpOperation>(wire.operation.value());
  packet.sender = LinkAddress::FromWire(wire.sender.data());
  packet.sender_ip = Ipv4Addr(wire.sender_ip.value());
  packet.target = LinkAddress::FromWire(wire.target.data());
  packet.target_ip = Ipv4Addr(wire.target_ip.value());
  return packet;
}

template <typename LinkAddress>
bool Encode(const ArpPacket<LinkAddress>& packet, absl::Span<uint8_t> out) {
  if (out.size() < ArpPacket<LinkAddress>::kSize) return false;
  ArpWire<LinkAddress> wire;
  wire.hardware_type = kHardwareType<LinkAddress>;
  wire.protocol_type = kEtherTypeIpv4;
  wire.hardware_length = LinkAddress::kSize;
  wire.protocol_length = Ipv4Addr::kSize;
  wire.operation = static_cast<uint16_t>(packet.operation);
  packet.sender.ToWire(wire.sender.data());
  wire.sender_ip = packet.sender_ip.value();
  packet.target.ToWire(wire.target.data());
  wire.target_ip = packet.target_ip.value();
  WriteWire(wire, out.data());
  return true;
}

}  // namespace

absl::optional<EthernetArp> ParseEthernetArp(absl::Span<const uint8_t> payload) noexcept {
  return Parse<MacAddr>(payload);
}
absl::optional<IpoibArp> ParseIpoibArp(absl::Span<const uint8_t> payload) noexcept {
  return Parse<IpoibAddress>(payload);
}

bool EncodeArp(const EthernetArp& packet, absl::Span<uint8_t> out) noexcept {
  return Encode(packet, out);
}
bool EncodeArp(const IpoibArp& packet, absl::Span<uint8_t> out) noexcept {
  return Encode(packet, out);
}

ArpPurpose PurposeOf(ArpOperation operation, Ipv4Addr sender_ip, Ipv4Addr target_ip) noexcept {
  if (operation == ArpOperation::kReverseRequest) return ArpPurpose::kReverseRequest;
  if (operation == ArpOperation::kReverseReply) return ArpPurpose::kReverseReply;
  // A request from 0.0.0.0 is a probe, even for target 0.0.0.0: no host owns that address.
  if (operation == ArpOperation::kRequest && sender_ip.IsZero()) return ArpPurpose::kProbe;
  if (sender_ip == target_ip) return ArpPurpose::kGratuitous;
  return operation == ArpOperation::kRequest ? ArpPurpose::kRequest : ArpPurpose::kReply;
}

}  // namespace eoib
