#include "vswitch/wire/ip/ipv6_extensions.h"

namespace eoib {
namespace {

constexpr uint8_t kOptionPad1 = 0;
constexpr uint8_t kOptionHomeAddress = 0xc9;
constexpr size_t kIpv6OptionHeaderSize = 2;  // type and length (RFC 8200 §4.2)

// Size of the option at the start of `rest`, which is not empty; 0 if it reaches beyond the end.
size_t Ipv6OptionSize(absl::Span<const uint8_t> rest) {
  if (rest[0] == kOptionPad1) return 1;
  if (rest.size() < kIpv6OptionHeaderSize || rest.size() < kIpv6OptionHeaderSize + rest[1])
    return 0;
  return kIpv6OptionHeaderSize + rest[1];
}

// True if the options have a home address or are malformed. A checksum then covers another address
// (RFC 6275 §11.3.1).
bool HasHomeAddress(absl::Span<const uint8_t> options) {
  while (!options.empty()) {
    const size_t size = Ipv6OptionSize(options);
    if (size == 0 || options[0] == kOptionHomeAddress) return true;
    options.remove_prefix(size);
  }
  return false;
}

}  // namespace

size_t Ipv6ExtensionSize(absl::Span<const uint8_t> rest) noexcept {
  if (rest.size() < kIpv6ExtensionUnit) return 0;
  const size_t size =
      kIpv6ExtensionUnit * (ReadWire<Ipv6ExtensionWire>(rest.data()).length + size_t{1});
  return size <= rest.size() ? size : 0;
}

bool KeepsAddresses(uint8_t protocol, absl::Span<const uint8_t> extension) noexcept {
  if (protocol == kProtocolRouting)
    return ReadWire<Ipv6ExtensionWire>(extension.data()).segments_left == 0;
  return protocol != kProtocolDestinationOptions || !HasHomeAddress(extension.subspan(2));
}

absl::Span<const uint8_t> FindIpv6Option(absl::Span<const uint8_t> options, uint8_t type) noexcept {
  while (!options.empty()) {
    const size_t size = Ipv6OptionSize(options);
    if (size == 0) break;
    if (options[0] == type && size >= kIpv6OptionHeaderSize)
      return options.first(size).subspan(kIpv6OptionHeaderSize);
    options.remove_prefix(size);
  }
  return {};
}

}  // namespace eoib
