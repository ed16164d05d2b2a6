// IP addresses: Ipv4Addr, Ipv6Addr, and IpAddr for either of them; and the well-known groups of
// every link.
//
// Like the types of base/address.h they are passed by value and hashable, with Parse and ToString
// in the form that `ip` prints.
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
  static constexpr Ipv6Addr LinkLocal(InterfaceId id) {
    return FromPrefixAndInterfaceId(kLinkLocalPrefix, id);
  }
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

// An IPv4 or IPv6 address, for tables that hold both.
//
// An IPv4-mapped IPv6 address (::ffff:192.0.2.1) is an ordinary IPv6 address here. It must not
// appear on the wire (RFC 4942 §2.2), and its sender is not taken for the IPv4 host.
class IpAddr {
 public:
  constexpr IpAddr() = default;  // 0.0.0.0
  // Not explicit: each of the two is an IP address.
  // NOLINTBEGIN(google-explicit-constructor)
  constexpr IpAddr(Ipv4Addr address) : ipv4_(address) {}
  constexpr IpAddr(const Ipv6Addr& address) : is_ipv6_(true), ipv6_(address) {}
  // NOLINTEND(google-explicit-constructor)
  // "10.0.0.1" or "fe80::1".
  static absl::StatusOr<IpAddr> Parse(absl::string_view text);

  constexpr bool is_ipv4() const { return !is_ipv6_; }
  constexpr bool is_ipv6() const { return is_ipv6_; }
  constexpr Ipv4Addr ipv4() const { return ipv4_; }         // 0.0.0.0 for an IPv6 address
  constexpr const Ipv6Addr& ipv6() const { return ipv6_; }  // :: for an IPv4 address

  constexpr bool IsUnspecified() const { return ipv4_.IsZero() && ipv6_.IsUnspecified(); }
  constexpr bool IsMulticast() const {
    return is_ipv6_ ? ipv6_.IsMulticast() : ipv4_.IsMulticast();
  }
  // Link-local: fe80::/64, 169.254.0.0/16 (RFC 3927).
  constexpr bool IsLinkLocal() const {
    return is_ipv6_ ? ipv6_.IsLinkLocal() : ipv4_.value() >> 16 == 0xa9fe;
  }
  // True if it can be a host's address: not a group, unspecified or loopback, not in IPv4's network
  // 0 (RFC 1122 §3.2.1.3) or class E, which includes 255.255.255.255. RFC 1122 §3.2.2 and RFC 4443
  // §2.4(e.6) call it "a single host".
  constexpr bool CanBeHost() const {
    if (is_ipv6_)
      return !IsMulticast() && !IsUnspecified() &&
             !(ipv6_.prefix() == 0 && ipv6_.interface_id().value() == 1);
    const uint32_t network = ipv4_.value() >> 24;
    return network != 0 && network != 127 && network < 224;
  }
  std::string ToString() const { return is_ipv6_ ? ipv6_.ToString() : ipv4_.ToString(); }

  friend constexpr auto operator<=>(const IpAddr&, const IpAddr&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const IpAddr& address) {
    return H::combine(std::move(h), address.is_ipv6_, address.ipv4_, address.ipv6_);
  }

 private:
  bool is_ipv6_ = false;
  Ipv4Addr ipv4_;
  Ipv6Addr ipv6_;
};

// RFC 1112 §4, Appendix I; RFC 4291 §2.7.1.
inline constexpr Ipv4Addr kAllHosts(0xe000'0001);     // 224.0.0.1
inline constexpr Ipv4Addr kAllRouters4(0xe000'0002);  // 224.0.0.2
inline constexpr Ipv6Addr kAllNodes(std::array<uint8_t, 16>{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                            0, 0, 0, 1});
inline constexpr Ipv6Addr kAllRouters6(std::array<uint8_t, 16>{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                               0, 0, 0, 0, 2});
// The solicited-node group of `address`: ff02::1:ff00:0/104 and the last 24 bits of the address.
Ipv6Addr SolicitedNodeGroup(const Ipv6Addr& address);

// True if packets for a group may leave the host. False for IPv6 groups of reserved or
// interface-local scope (RFC 4291 §2.7).
constexpr bool IsBeyondHost(const IpAddr& group) {
  return group.is_ipv4() || (group.ipv6().bytes()[1] & 0xf) > 1;
}

// True if `ip` is of the family of `prefix` and has its first `length` bits.
bool HasPrefix(const IpAddr& ip, const IpAddr& prefix, int length);

// True if packets for a group may leave the link. False for 224.0.0.0/24 (RFC 5771 §4), and for
// IPv6 groups of at most link-local scope (RFC 4291 §2.7).
bool IsBeyondLink(const IpAddr& group);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IP_IP_ADDRESS_H_
