// IP address types, in the style of base/address.h: passed by value, hashable, with Parse and ToString in the form that `ip`
// prints.
#ifndef EOIB_VSWITCH_WIRE_IP_IP_ADDRESS_H_
#define EOIB_VSWITCH_WIRE_IP_IP_ADDRESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "vswitch/base/address.h"

namespace eoib {

// An IPv4 address; its value is in host order, so 192.0.2.1 is 0xc0000201.
class Ipv4Addr : public Number<struct Ipv4AddrTag, uint32_t> {
 public:
  static constexpr size_t kSize = 4;
  using Number::Number;
  // The limited broadcast address, 255.255.255.255 (RFC 919 §7).
  static constexpr Ipv4Addr Broadcast() { return Ipv4Addr(0xffff'ffff); }
  // "192.0.2.1": four decimal numbers.
  static absl::StatusOr<Ipv4Addr> Parse(absl::string_view text);

  constexpr bool IsZero() const { return value() == 0; }
  constexpr bool IsBroadcast() const { return *this == Broadcast(); }
  constexpr bool IsMulticast() const { return value() >> 28 == 0xe; }  // 224.0.0.0/4 (RFC 1112 §4)
  std::string ToString() const;
};

// The lower half of a unicast IPv6 address (RFC 4291 §2.5.1).
class InterfaceId : public Number<struct InterfaceIdTag, uint64_t> {
 public:
  using Number::Number;
  // "::253:494d:4942:1", as `ip token` prints it: an IPv6 address whose upper half is 0.
  static absl::StatusOr<InterfaceId> Parse(absl::string_view text);
  std::string ToString() const;
};

// An IPv6 address.
class Ipv6Addr {
 public:
  static constexpr size_t kSize = 16;

  constexpr Ipv6Addr() = default;
  constexpr explicit Ipv6Addr(const std::array<uint8_t, kSize>& bytes) : bytes_(bytes) {}
  static Ipv6Addr FromWire(const void* wire) {
    Ipv6Addr address;
    std::memcpy(address.bytes_.data(), wire, kSize);
    return address;
  }
  static constexpr Ipv6Addr FromPrefixAndInterfaceId(uint64_t prefix, InterfaceId id) {
    return Ipv6Addr(Gid::FromPrefixAndGuid(prefix, Guid(id.value())).bytes());
  }
  // fe80::/64 and `id` (RFC 4291 §2.5.6).
  static constexpr Ipv6Addr LinkLocal(InterfaceId id) { return FromPrefixAndInterfaceId(kLinkLocalPrefix, id); }
  // "fe80::1"; no zone, no prefix length.
  static absl::StatusOr<Ipv6Addr> Parse(absl::string_view text);

  void ToWire(void* wire) const { std::memcpy(wire, bytes_.data(), kSize); }
  constexpr const std::array<uint8_t, kSize>& bytes() const { return bytes_; }
  constexpr uint64_t prefix() const { return Gid(bytes_).prefix(); }
  constexpr InterfaceId interface_id() const { return InterfaceId(Gid(bytes_).guid().value()); }
  constexpr bool IsUnspecified() const { return *this == Ipv6Addr(); }
  constexpr bool IsMulticast() const { return bytes_[0] == 0xff; }
  // In fe80::/64: the 54 bits after the ten-bit prefix are 0 (RFC 4291 §2.5.6).
  constexpr bool IsLinkLocal() const { return prefix() == kLinkLocalPrefix; }
  std::string ToString() const;  // compressed: "fe80::253:494d:4942:1"

  friend constexpr auto operator<=>(const Ipv6Addr&, const Ipv6Addr&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Ipv6Addr& address) {
    return H::combine(std::move(h), address.prefix(), address.interface_id());
  }

 private:
  static constexpr uint64_t kLinkLocalPrefix = 0xfe80'0000'0000'0000;

  std::array<uint8_t, kSize> bytes_{};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_ADDRESS_H_
