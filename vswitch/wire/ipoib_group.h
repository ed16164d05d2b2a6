// The multicast groups of an IPoIB link (RFC 4391 §4).
//
//     ff | flags 4 (1: transient) | scope 4 | signature 16 | P_Key 16 | group ID 80
//
// What an MGID says is the link, and what is in its last 80 bits: an IPv4 group whole, of an IPv6 group the lower part of its
// address. See wire_format.md.
#ifndef EOIB_VSWITCH_WIRE_IPOIB_GROUP_H_
#define EOIB_VSWITCH_WIRE_IPOIB_GROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/wire/ip_address.h"

namespace eoib {

// How far a group reaches: four bits of an MGID, and of an MCMemberRecord (IBA 1.4 §4.1.1). 0 and 15 are reserved.
class MulticastScope : public Number<struct MulticastScopeTag, uint8_t> {
 public:
  using Number::Number;
  static constexpr MulticastScope LinkLocal() { return MulticastScope(2); }  // the subnet: RFC 4391 §4.1's default
  static constexpr MulticastScope SiteLocal() { return MulticastScope(5); }
  static constexpr MulticastScope Organization() { return MulticastScope(8); }
  static constexpr MulticastScope Global() { return MulticastScope(14); }

  constexpr bool IsValid() const { return value() >= 1 && value() <= 14; }
  std::string ToString() const;  // "0x2"
};

// What all MGIDs of a link have in common. The scope is the broadcast group's, whatever the IP group's is: a group of all
// routers of a site (ff05::2) is on a link of link-local scope one of ff12 (§4: "All MGIDs used in the IPoIB subnet MUST use
// the same scop bits as in the corresponding broadcast-GID").
struct IpoibLink {
  PKey pkey;  // goes into MGIDs in its full-member form (§4.1), and comes from them so
  MulticastScope scope = MulticastScope::LinkLocal();

  friend constexpr bool operator==(const IpoibLink&, const IpoibLink&) = default;
};

// A group of a link, as its MGID says it.
struct IpoibGroup {
  enum class Family : uint8_t { kIpv4, kIpv6 };
  static constexpr size_t kIpv6IdSize = 10;

  IpoibLink link;
  Family family = Family::kIpv4;
  Ipv4Addr ipv4;                               // of kIpv4: a multicast address, or 255.255.255.255; else 0
  std::array<uint8_t, kIpv6IdSize> ipv6_id{};  // of kIpv6: the address' lower 80 bits; else 0

  // Every interface of the link is in it: ARP and all IPv4 broadcasts go there (§5).
  constexpr bool IsBroadcast() const { return family == Family::kIpv4 && ipv4.IsBroadcast(); }

  friend constexpr bool operator==(const IpoibGroup&, const IpoibGroup&) = default;
};

// The broadcast group, of which the others have their scope.
IpoibGroup BroadcastGroup(const IpoibLink& link);
// Where a packet for `destination` goes. Nothing for a unicast address. A broadcast address of an IP subnet, 192.0.2.255,
// belongs to the broadcast group too, but only who knows the subnet's mask sees that it is one.
absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, Ipv4Addr destination);
// The same of IPv6, where addresses that differ in their flags, in their scope or in bits 80 to 111 share a group.
absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, const Ipv6Addr& destination);

// Requires link.scope.IsValid(), and of IPv4 an address as IpoibGroup says.
Mgid ToMgid(const IpoibGroup& group);
// The reverse; nothing unless the MGID is transient, its scope not reserved, its signature one of the two, its P_Key a full
// member's and, with IPv4's, its group ID 28 bits or the broadcast group's. The P_Key 0x8000, which is no partition's (IBA 1.4
// §10.9.1.1), is accepted because RFC 4391 §4 has it in its example.
absl::optional<IpoibGroup> ParseIpoibMgid(const Mgid& mgid);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_IPOIB_GROUP_H_
