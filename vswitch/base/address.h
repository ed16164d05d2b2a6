// Address types for Ethernet and InfiniBand: one strong type for each kind of number, because a LID
// is not an MLID, a QPN is not a Q_Key, and two P_Keys that differ may still match.
//
// They are passed by value, trivially copyable, without implicit conversion and hashable, with
// Parse and ToString in the form that `ip`, `ibstat` and `saquery` print. Values are in host order.
// A failed Parse returns kInvalidArgument; the message quotes the text and names the right form.
#ifndef EOIB_VSWITCH_BASE_ADDRESS_H_
#define EOIB_VSWITCH_BASE_ADDRESS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace eoib {

// Parses all of `text`: as many groups of one or two hex digits as there are bytes, separated by
// colons.
bool ParseHexBytes(absl::string_view text, absl::Span<uint8_t> bytes);

// An integer of one kind. `Tag` names the kind; kinds do not convert into each other.
template <typename Tag, typename Integer>
class Number {
 public:
  constexpr Number() = default;
  constexpr explicit Number(Integer value) : value_(value) {}
  constexpr Integer value() const { return value_; }

  friend constexpr auto operator<=>(Number, Number) = default;
  template <typename H>
  friend H AbslHashValue(H h, Number n) {
    return H::combine(std::move(h), n.value_);
  }

 private:
  Integer value_ = 0;
};

// An IEEE 802 MAC address, 48 bits.
class MacAddr {
 public:
  static constexpr size_t kSize = 6;

  constexpr MacAddr() = default;
  constexpr explicit MacAddr(const std::array<uint8_t, kSize>& bytes) : bytes_(bytes) {}
  // Reads six bytes at `wire`.
  static MacAddr FromWire(const void* wire) {
    MacAddr mac;
    std::memcpy(mac.bytes_.data(), wire, kSize);
    return mac;
  }
  // The low 48 bits of `value`; the first byte on the wire is the highest.
  static constexpr MacAddr FromUint64(uint64_t value) {
    MacAddr mac;
    for (size_t i = 0; i < kSize; ++i)
      mac.bytes_[i] = static_cast<uint8_t>(value >> (8 * (kSize - 1 - i)));
    return mac;
  }
  static constexpr MacAddr Broadcast() { return FromUint64(0xffff'ffff'ffff); }
  // "02:00:5e:10:00:01"; six groups of one or two hex digits, case does not matter.
  static absl::StatusOr<MacAddr> Parse(absl::string_view text);

  void ToWire(void* wire) const { std::memcpy(wire, bytes_.data(), kSize); }
  constexpr uint64_t ToUint64() const {
    // Not a loop: compilers turn this form into two loads.
    const uint32_t high = uint32_t{bytes_[0]} << 24 | uint32_t{bytes_[1]} << 16 |
                          uint32_t{bytes_[2]} << 8 | bytes_[3];
    const uint32_t low = uint32_t{bytes_[4]} << 8 | bytes_[5];
    return uint64_t{high} << 16 | low;
  }
  constexpr const std::array<uint8_t, kSize>& bytes() const { return bytes_; }
  constexpr bool IsGroup() const { return (bytes_[0] & 1) != 0; }  // multicast or broadcast
  constexpr bool IsBroadcast() const { return *this == Broadcast(); }
  constexpr bool IsZero() const { return *this == MacAddr(); }
  std::string ToString() const;

  friend constexpr auto operator<=>(const MacAddr&, const MacAddr&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const MacAddr& mac) {
    return H::combine(std::move(h), mac.ToUint64());
  }

 private:
  std::array<uint8_t, kSize> bytes_{};
};

// An IEEE 802.1Q VLAN identifier. 0 means untagged or priority-tagged; 1 to 4094 are VLANs; 4095 is
// reserved.
class Vid : public Number<struct VidTag, uint16_t> {
 public:
  static constexpr uint16_t kMax = 4094;
  using Number::Number;
  constexpr bool IsUntagged() const { return value() == 0; }
  constexpr bool IsValid() const { return value() <= kMax; }
  std::string ToString() const;
};

// A unicast local identifier, 1 to 0xbfff; 0 is none (IBA 1.4 §4.1.3).
class Lid : public Number<struct LidTag, uint16_t> {
 public:
  static constexpr uint16_t kMax = 0xbfff;
  using Number::Number;
  // "5" or "0x5".
  static absl::StatusOr<Lid> Parse(absl::string_view text);
  constexpr bool IsValid() const { return value() != 0 && value() <= kMax; }
  std::string ToString() const;  // "0x5", as saquery prints it
};

// A multicast local identifier, 0xc000 to 0xfffe; 0 is none (IBA 1.4 §4.1.3).
class Mlid : public Number<struct MlidTag, uint16_t> {
 public:
  static constexpr uint16_t kMin = 0xc000;
  static constexpr uint16_t kMax = 0xfffe;
  using Number::Number;
  constexpr bool IsValid() const { return value() >= kMin && value() <= kMax; }
  std::string ToString() const;  // "0xc001"
};

// A queue pair number, 24 bits.
class Qpn : public Number<struct QpnTag, uint32_t> {
 public:
  static constexpr uint32_t kMax = 0xffffff;
  static constexpr uint32_t kMulticast = 0xffffff;  // destination QPN of every multicast datagram
  using Number::Number;
  static absl::StatusOr<Qpn> Parse(absl::string_view text);
  constexpr bool IsValid() const { return value() <= kMax; }
  std::string ToString() const;  // "0x48"
};

// A Q_Key. The high-order bit marks a controlled Q_Key: in a send request it means "use the QP's
// own" (IBA 1.4 §10.2.5).
class QKey : public Number<struct QKeyTag, uint32_t> {
 public:
  using Number::Number;
  constexpr bool IsControlled() const { return (value() & 0x8000'0000u) != 0; }
  std::string ToString() const;
};

// A service level, 0 to 15.
class Sl : public Number<struct SlTag, uint8_t> {
 public:
  static constexpr uint8_t kMax = 15;
  using Number::Number;
  std::string ToString() const;
};

// A partition key. The high-order bit tells full members from limited ones; two P_Keys match if
// their low 15 bits are equal and at least one is a full member's (IBA 1.4 §10.9.3). Matching is
// therefore not equality.
class PKey : public Number<struct PKeyTag, uint16_t> {
 public:
  static constexpr uint16_t kFullMember = 0x8000;
  using Number::Number;
  // "0x8001" or decimal. The membership bit is kept as written.
  static absl::StatusOr<PKey> Parse(absl::string_view text);
  constexpr bool IsFullMember() const { return (value() & kFullMember) != 0; }
  constexpr bool IsValid() const { return (value() & 0x7fff) != 0; }
  constexpr uint16_t base() const { return value() & 0x7fff; }
  constexpr PKey Full() const { return PKey(value() | kFullMember); }
  constexpr PKey Limited() const { return PKey(base()); }
  constexpr bool SamePartition(PKey other) const { return base() == other.base(); }
  constexpr bool Matches(PKey other) const {
    return IsValid() && SamePartition(other) && (IsFullMember() || other.IsFullMember());
  }
  std::string ToString() const;  // "0x8001"
};

// A 64-bit EUI-64 identifier of a node or port.
class Guid : public Number<struct GuidTag, uint64_t> {
 public:
  using Number::Number;
  // "0x0002c903000e0b72" or "0002:c903:000e:0b72".
  static absl::StatusOr<Guid> Parse(absl::string_view text);
  std::string ToString() const;  // "0002:c903:000e:0b72", as ibstat's sysfs prints it
};

// A 128-bit InfiniBand global identifier.
class Gid {
 public:
  static constexpr size_t kSize = 16;

  constexpr Gid() = default;
  constexpr explicit Gid(const std::array<uint8_t, kSize>& bytes) : bytes_(bytes) {}
  static Gid FromWire(const void* wire) {
    Gid gid;
    std::memcpy(gid.bytes_.data(), wire, kSize);
    return gid;
  }
  static constexpr Gid FromPrefixAndGuid(uint64_t prefix, Guid guid) {
    Gid gid;
    for (size_t i = 0; i < 8; ++i) {
      gid.bytes_[i] = static_cast<uint8_t>(prefix >> (56 - 8 * i));
      gid.bytes_[8 + i] = static_cast<uint8_t>(guid.value() >> (56 - 8 * i));
    }
    return gid;
  }
  // The text form of an IPv6 address (IBA 1.4 §4.1.1): "fe80::2:c903:e:b72".
  static absl::StatusOr<Gid> Parse(absl::string_view text);

  void ToWire(void* wire) const { std::memcpy(wire, bytes_.data(), kSize); }
  constexpr const std::array<uint8_t, kSize>& bytes() const { return bytes_; }
  constexpr bool IsMulticast() const { return bytes_[0] == 0xff; }
  constexpr bool IsZero() const { return *this == Gid(); }
  constexpr uint64_t prefix() const { return Half(0); }
  constexpr Guid guid() const { return Guid(Half(8)); }
  // All eight 16-bit groups written out, as ibv_devinfo and saquery print a GID:
  // "fe80:0000:0000:0000:0002:c903:000e:0b72".
  std::string ToString() const;

  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Gid& gid) {
    return H::combine(std::move(h), gid.Half(0), gid.Half(8));
  }

 private:
  constexpr uint64_t Half(size_t at) const {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i) value = value << 8 | bytes_[at + i];
    return value;
  }

  std::array<uint8_t, kSize> bytes_{};
};

// A multicast GID: a Gid whose first byte is 0xff. A separate type, so that code cannot join a
// unicast GID.
class Mgid {
 public:
  constexpr Mgid() = default;
  // Requires gid.IsMulticast() or gid.IsZero() ("none").
  constexpr explicit Mgid(const Gid& gid) : gid_(gid) {}

  constexpr const Gid& gid() const { return gid_; }
  std::string ToString() const { return gid_.ToString(); }

  friend constexpr auto operator<=>(const Mgid&, const Mgid&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Mgid& mgid) {
    return H::combine(std::move(h), mgid.gid_);
  }

 private:
  Gid gid_;
};

// The address at which a vPort's agent receives. Learning takes it from the GRH SGID and the DETH
// source QPN of a datagram.
struct PeerAddress {
  Gid gid;
  Qpn qpn;

  friend constexpr auto operator<=>(const PeerAddress&, const PeerAddress&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PeerAddress& peer) {
    return H::combine(std::move(h), peer.gid, peer.qpn);
  }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_ADDRESS_H_
