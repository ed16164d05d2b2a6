#include "vswitch/wire/ip/dhcp4.h"

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/dhcp4_wire.h"
#include "vswitch/wire/ip/ip_checksum.h"
#include "vswitch/wire/ip/ip_headers.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib {
namespace {

// Values of the overload option (RFC 2132 §9.3): which of the name fields hold options.
constexpr uint8_t kOverloadFile = 1, kOverloadServerName = 2;
constexpr uint8_t kMaxOverload = kOverloadFile | kOverloadServerName;

constexpr uint8_t kClientIdentifierType = 255;  // RFC 4361 §6.1
constexpr uint16_t kDuidLinkLayer = 3;          // RFC 8415 §11.4
constexpr uint16_t kHardwareEui64 = 27;

using Visit = absl::FunctionRef<void(DhcpOption option, absl::Span<const uint8_t> value)>;

// Calls `visit` for each option of a field, up to the end option. False if an option reaches beyond
// the field (RFC 2132 §2).
bool VisitOptions(absl::Span<const uint8_t> field, Visit visit) {
  constexpr size_t kHeader = 2;  // code and length
  while (!field.empty() && field[0] != static_cast<uint8_t>(DhcpOption::kEnd)) {
    if (field[0] == static_cast<uint8_t>(DhcpOption::kPad)) {
      field.remove_prefix(1);
      continue;
    }
    if (field.size() < kHeader || field.size() - kHeader < field[1]) return false;
    visit(static_cast<DhcpOption>(field[0]), field.subspan(kHeader, field[1]));
    field.remove_prefix(kHeader + field[1]);
  }
  return true;
}

bool IsReadable(absl::Span<const uint8_t> field) {
  return VisitOptions(field, [](DhcpOption, absl::Span<const uint8_t>) {});
}

DhcpFields FieldsOf(const Dhcp4Wire& wire) {
  DhcpFields fields;
  fields.operation = static_cast<BootpOperation>(wire.operation);
  fields.hardware_type = wire.hardware_type;
  fields.hardware_length = wire.hardware_length;
  fields.hops = wire.hops;
  fields.transaction = wire.transaction.value();
  fields.seconds = wire.seconds.value();
  fields.flags = wire.flags.value();
  fields.client = Ipv4Addr(wire.client.value());
  fields.yours = Ipv4Addr(wire.yours.value());
  fields.server = Ipv4Addr(wire.server.value());
  fields.relay = Ipv4Addr(wire.relay.value());
  fields.hardware_address = wire.hardware_address;
  return fields;
}

bool IsOperation(uint8_t operation) {
  return operation == static_cast<uint8_t>(BootpOperation::kRequest) ||
         operation == static_cast<uint8_t>(BootpOperation::kReply);
}

bool HasCookie(absl::Span<const uint8_t> payload) {
  return payload.size() >= sizeof(Dhcp4Wire) + sizeof(be32) &&
         ReadWire<be32>(&payload[sizeof(Dhcp4Wire)]).value() == kDhcpMagicCookie;
}

// Reads a one-byte option; *value is unchanged if there is none. False if it is not one byte from 1
// to `max`.
bool ReadByteOption(const DhcpMessage& message, DhcpOption option, uint8_t max, uint8_t* value) {
  size_t size = 0;
  message.ForEachOption([&](DhcpOption other, absl::Span<const uint8_t> bytes) {
    if (other != option) return;
    size += bytes.size();
    if (!bytes.empty()) *value = bytes[0];
  });
  if (size == 0) return true;
  return size == 1 && *value >= 1 && *value <= max;
}

// True for a request whose client cannot receive unicast yet (RFC 2131 §4.1) and does not ask for a
// broadcast reply. A relay asks for itself.
bool NeedsBroadcast(const Dhcp4Wire& wire) {
  return wire.operation == static_cast<uint8_t>(BootpOperation::kRequest) &&
         (wire.flags.value() & kDhcpBroadcastFlag) == 0 && wire.client.value() == 0 &&
         wire.relay.value() == 0;
}

}  // namespace

absl::optional<DhcpMessage> DhcpMessage::Parse(absl::Span<const uint8_t> payload) noexcept {
  if (payload.size() < sizeof(Dhcp4Wire)) return absl::nullopt;
  const auto wire = ReadWire<Dhcp4Wire>(payload.data());
  if (!IsOperation(wire.operation) || wire.hardware_length > kDhcpHardwareAddressSize)
    return absl::nullopt;
  DhcpMessage message;
  message.fields_ = FieldsOf(wire);
  if (!HasCookie(payload)) return message;
  message.payload_ = payload;
  // The overload option counts in the options field only. overload_ is still 0 here, so the search
  // covers that field alone.
  uint8_t overload = 0, type = 0;
  if (!IsReadable(message.OptionField(0))) return absl::nullopt;
  if (!ReadByteOption(message, DhcpOption::kOverload, kMaxOverload, &overload))
    return absl::nullopt;
  message.overload_ = overload;
  if (!IsReadable(message.OptionField(1)) || !IsReadable(message.OptionField(2)))
    return absl::nullopt;
  if (!ReadByteOption(message, DhcpOption::kMessageType, 0xff, &type)) return absl::nullopt;
  if (type != 0) message.type_ = static_cast<DhcpMessageType>(type);
  return message;
}

absl::Span<const uint8_t> DhcpMessage::OptionField(int index) const {
  if (payload_.empty()) return {};
  if (index == 0) return payload_.subspan(sizeof(Dhcp4Wire) + sizeof(be32));
  if (index == 1 && (overload_ & kOverloadFile) != 0)
    return payload_.subspan(offsetof(Dhcp4Wire, file), kDhcpFileSize);
  if (index == 2 && (overload_ & kOverloadServerName) != 0) {
    return payload_.subspan(offsetof(Dhcp4Wire, server_name), kDhcpServerNameSize);
  }
  return {};
}

void DhcpMessage::ForEachOption(Visit visit) const noexcept {
  for (int field = 0; field < 3; ++field) VisitOptions(OptionField(field), visit);
}

absl::optional<std::vector<uint8_t>> DhcpMessage::FindOption(DhcpOption option) const {
  absl::optional<std::vector<uint8_t>> found;
  ForEachOption([&](DhcpOption other, absl::Span<const uint8_t> value) {
    if (other != option) return;
    if (!found.has_value()) found.emplace();
    found->insert(found->end(), value.begin(), value.end());
  });
  return found;
}

std::vector<Ipv4Addr> DhcpMessage::FindAddresses(DhcpOption option) const {
  const auto value = FindOption(option);
  std::vector<Ipv4Addr> addresses;
  if (!value.has_value() || value->size() % Ipv4Addr::kSize != 0) return addresses;
  for (size_t at = 0; at < value->size(); at += Ipv4Addr::kSize) {
    addresses.emplace_back(ReadWire<be32>(value->data() + at).value());
  }
  return addresses;
}

absl::optional<Ipv4Addr> DhcpMessage::FindAddress(DhcpOption option) const {
  const auto addresses = FindAddresses(option);
  return addresses.empty() ? absl::nullopt : absl::make_optional(addresses.front());
}

absl::optional<uint32_t> DhcpMessage::FindNumber(DhcpOption option) const {
  const auto value = FindOption(option);
  if (!value.has_value() || (value->size() != 1 && value->size() != 2 && value->size() != 4))
    return absl::nullopt;
  uint32_t number = 0;
  for (const uint8_t byte : *value) number = number << 8 | byte;
  return number;
}

bool AskForBroadcast(absl::Span<uint8_t> packet) noexcept {
  constexpr size_t kUdpSize = 8, kUdpChecksumOffset = 6;
  const auto ip = ParseIpv4Packet(packet);
  if (!ip.has_value() || ip->protocol != kProtocolUdp || !ip->fragment.IsWhole()) return false;
  const size_t udp = ip->bytes.size() - ip->payload.size();
  if (ip->payload.size() < kUdpSize + sizeof(Dhcp4Wire)) return false;
  if (ReadWire<be16>(&ip->payload[2]).value() != kDhcpServerPort) return false;
  const auto wire = ReadWire<Dhcp4Wire>(&ip->payload[kUdpSize]);
  if (!NeedsBroadcast(wire)) return false;
  const uint16_t before = wire.flags.value(), after = before | kDhcpBroadcastFlag;
  WriteWire(be16(after), &packet[udp + kUdpSize + offsetof(Dhcp4Wire, flags)]);
  uint8_t* const checksum = &packet[udp + kUdpChecksumOffset];
  WriteWire(be16(UpdateUdpChecksum(ReadWire<be16>(checksum).value(), before, after)), checksum);
  return true;
}

std::vector<uint8_t> DhcpClientIdentifier(uint32_t interface_identity,
                                          absl::Span<const uint8_t> duid) {
  std::vector<uint8_t> identifier(1 + sizeof(be32), kClientIdentifierType);
  WriteWire(be32(interface_identity), &identifier[1]);
  identifier.insert(identifier.end(), duid.begin(), duid.end());
  return identifier;
}

std::vector<uint8_t> DuidOf(Guid guid) {
  struct {
    be16 type{kDuidLinkLayer};
    be16 hardware{kHardwareEui64};
    be64 address;
  } wire;
  wire.address = guid.value();
  std::vector<uint8_t> duid(sizeof(wire));
  WriteWire(wire, duid.data());
  return duid;
}

}  // namespace eoib
