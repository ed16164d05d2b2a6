#include "vswitch/wire/ipoib_header.h"

#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

// RFC 4391 §6, figure 3.
struct IpoibHeaderWire {
  be16 type;
  be16 reserved;
};
static_assert(sizeof(IpoibHeaderWire) == kIpoibHeaderSize);

}  // namespace

absl::optional<IpoibType> DecodeIpoibHeader(absl::Span<const uint8_t> datagram) noexcept {
  if (datagram.size() < kIpoibHeaderSize) return absl::nullopt;
  const auto type = static_cast<IpoibType>(ReadWire<IpoibHeaderWire>(datagram.data()).type.value());
  switch (type) {
    case IpoibType::kIpv4:
    case IpoibType::kArp:
    case IpoibType::kRarp:
    case IpoibType::kIpv6:
      return type;
  }
  return absl::nullopt;
}

void EncodeIpoibHeader(IpoibType type, uint8_t* out) noexcept {
  IpoibHeaderWire wire;
  wire.type = static_cast<uint16_t>(type);
  WriteWire(wire, out);
}

}  // namespace eoib
