#include "vswitch/wire/ip/dhcp4_writer.h"

#include <algorithm>

#include "vswitch/base/byte_order.h"
#include "vswitch/wire/ip/dhcp4_wire.h"

namespace eoib {
namespace {

constexpr size_t kMaxPart = 255;   // value bytes of an option, after code and length
constexpr size_t kSmallest = 300;  // RFC 1542 §2.1
constexpr uint8_t kPad = static_cast<uint8_t>(DhcpOption::kPad);
constexpr uint8_t kEnd = static_cast<uint8_t>(DhcpOption::kEnd);

Dhcp4Wire ToWire(const DhcpFields& fields) {
  Dhcp4Wire wire;
  wire.operation = static_cast<uint8_t>(fields.operation);
  wire.hardware_type = fields.hardware_type;
  wire.hardware_length = fields.hardware_length;
  wire.hops = fields.hops;
  wire.transaction = fields.transaction;
  wire.seconds = fields.seconds;
  wire.flags = fields.flags;
  wire.client = fields.client.value();
  wire.yours = fields.yours.value();
  wire.server = fields.server.value();
  wire.relay = fields.relay.value();
  wire.hardware_address = fields.hardware_address;
  return wire;
}

}  // namespace

DhcpFields IpoibDhcpRequest(uint32_t transaction, Ipv4Addr client) noexcept {
  DhcpFields fields;
  fields.operation = BootpOperation::kRequest;
  fields.hardware_type = kDhcpInfiniband;
  fields.transaction = transaction;
  fields.flags = client.IsZero() ? kDhcpBroadcastFlag : 0;
  fields.client = client;
  return fields;
}

DhcpWriter::DhcpWriter(const DhcpFields& fields, absl::Span<uint8_t> out) noexcept : out_(out) {
  fits_ = out_.size() >= sizeof(Dhcp4Wire) + sizeof(be32);
  if (!fits_) return;
  WriteWire(ToWire(fields), out_.data());
  WriteWire(be32(kDhcpMagicCookie), &out_[sizeof(Dhcp4Wire)]);
  size_ = sizeof(Dhcp4Wire) + sizeof(be32);
}

void DhcpWriter::AddPart(DhcpOption option, absl::Span<const uint8_t> value) noexcept {
  fits_ = fits_ && out_.size() - size_ >= 2 + value.size();
  if (!fits_) return;
  out_[size_++] = static_cast<uint8_t>(option);
  out_[size_++] = static_cast<uint8_t>(value.size());
  std::copy(value.begin(), value.end(), out_.begin() + size_);
  size_ += value.size();
}

void DhcpWriter::Add(DhcpOption option, absl::Span<const uint8_t> value) noexcept {
  do {
    const auto part = value.first(std::min(value.size(), kMaxPart));
    AddPart(option, part);
    value.remove_prefix(part.size());
  } while (!value.empty());
}

void DhcpWriter::Add(DhcpMessageType type) noexcept {
  const uint8_t value = static_cast<uint8_t>(type);
  Add(DhcpOption::kMessageType, {&value, 1});
}

void DhcpWriter::AddAddress(DhcpOption option, Ipv4Addr address) noexcept {
  AddNumber32(option, address.value());
}

void DhcpWriter::AddNumber16(DhcpOption option, uint16_t value) noexcept {
  uint8_t bytes[sizeof(value)];
  WriteWire(be16(value), bytes);
  Add(option, bytes);
}

void DhcpWriter::AddNumber32(DhcpOption option, uint32_t value) noexcept {
  uint8_t bytes[sizeof(value)];
  WriteWire(be32(value), bytes);
  Add(option, bytes);
}

absl::Span<const uint8_t> DhcpWriter::Finish() noexcept {
  fits_ = fits_ && size_ < out_.size() && out_.size() >= kSmallest;
  if (!fits_) return {};
  out_[size_++] = kEnd;
  for (; size_ < kSmallest; ++size_) out_[size_] = kPad;
  return out_.first(size_);
}

}  // namespace eoib
