// The multicast groups of an IPoIB link (RFC 4391 §4).
//
//     ff | flags 4 (1: transient) | scope 4 | signature 16 | P_Key 16 | group ID 80
//
// An MGID identifies the link and, in its last 80 bits, a whole IPv4 group or the lower part of an
// IPv6 group. See wire_format.md.
#ifndef EOIB_VSWITCH_WIRE_IPOIB_GROUP_H_
#define EOIB_VSWITCH_WIRE_IPOIB_GROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib {

// The scope of a group: four bits in an MGID and in an MCMemberRecord (IBA 1.4 §4.1.1). 0 and 15
// are reserved.
class MulticastScope : public Number<struct MulticastScopeTag, uint8_t> {
 public:
  using Number::Number;
  // The subnet: RFC 4391 §4.1's default.
  static constexpr MulticastScope LinkLocal() { return MulticastScope(2); }

  constexpr bool IsValid() const { return value() >= 1 && value() <= 14; }
  std::string ToString() const;  // "0x2"
};

// The common part of all MGIDs of a link. The scope is that of the broadcast group, not of the IP
// group: on a link of link-local scope, ff05::2 has an MGID of ff12 (§4: "All MGIDs used in the
// IPoIB subnet MUST use the same scop bits as in the corresponding broadcast-GID").
struct IpoibLink {
  PKey pkey;  // MGIDs have its full-member form (§4.1)
  MulticastScope scope = MulticastScope::LinkLocal();

  friend constexpr bool operator==(const IpoibLink&, const IpoibLink&) = default;
};

// A group of a link, as encoded in its MGID.
struct IpoibGroup {
  enum class Family : uint8_t { kIpv4, kIpv6 };
  static constexpr size_t kIpv6IdSize = 10;

  IpoibLink link;
  Family family = Family::kIpv4;
  // kIpv4: a multicast address, or 255.255.255.255; else 0.
  Ipv4Addr ipv4;
  std::array<uint8_t, kIpv6IdSize> ipv6_id{};  // kIpv6: the lower 80 bits of the address; else 0

  // Every interface of the link is in it: ARP and all IPv4 broadcasts go there (§5).
  constexpr bool IsBroadcast() const { return family == Family::kIpv4 && ipv4.IsBroadcast(); }

  friend constexpr bool operator==(const IpoibGroup&, const IpoibGroup&) = default;
};

// The broadcast group, whose scope all other groups share.
IpoibGroup BroadcastGroup(const IpoibLink& link);
// The group for packets to `destination`. Nothing for a unicast address. A subnet's broadcast
// address, such as 192.0.2.255, also belongs to the broadcast group, but only a caller that knows
// the netmask can tell.
absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, Ipv4Addr destination);
// The same for IPv6, where addresses that differ only in flags, scope or bits 80 to 111 share a
// group.
absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, const Ipv6Addr& destination);
inline absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, const IpAddr& destination) {
  return destination.is_ipv6() ? GroupOf(link, destination.ipv6())
                               : GroupOf(link, destination.ipv4());
}

// Requires link.scope.IsValid(), and for IPv4 an address as described in IpoibGroup.
Mgid ToMgid(const IpoibGroup& group);
// The reverse. Nothing unless the MGID is transient, its scope is not reserved, its signature is
// one of the two, its P_Key is in full-member form and, for IPv4, its group ID has 28 bits or is
// that of the broadcast group. Accepts the P_Key 0x8000, which belongs to no partition (IBA 1.4
// §10.9.1.1), because an example in RFC 4391 §4 has it.
absl::optional<IpoibGroup> ParseIpoibMgid(const Mgid& mgid);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IPOIB_GROUP_H_
