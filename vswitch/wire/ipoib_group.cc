#include "vswitch/wire/ipoib_group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

using Family = IpoibGroup::Family;

// RFC 4391 §4, figures 1 and 2.
struct IpoibMgidWire {
  be16 flags_and_scope;
  be16 signature;
  be16 pkey;
  std::array<uint8_t, IpoibGroup::kIpv6IdSize> id{};
};
static_assert(sizeof(IpoibMgidWire) == Gid::kSize);

constexpr uint16_t kTransient = 0xff10;
constexpr uint16_t kScopeMask = 0x000f;
constexpr uint16_t kIpv4Signature = 0x401b;
constexpr uint16_t kIpv6Signature = 0x601b;
// Within the group ID, after zeros.
constexpr size_t kIpv4Offset = IpoibGroup::kIpv6IdSize - Ipv4Addr::kSize;
constexpr uint32_t kIpv4GroupMask = 0x0fff'ffff;
constexpr uint32_t kIpv4GroupPrefix = 0xe000'0000;

// The 28 bits of an IPv4 group, or all ones of the broadcast address.
uint32_t ToId(Ipv4Addr group) {
  return group.IsBroadcast() ? group.value() : group.value() & kIpv4GroupMask;
}

absl::optional<Ipv4Addr> ParseId(const std::array<uint8_t, IpoibGroup::kIpv6IdSize>& id) {
  const uint32_t group = ReadWire<be32>(&id[kIpv4Offset]).value();
  if (std::any_of(id.begin(), id.begin() + kIpv4Offset, [](uint8_t byte) { return byte != 0; }))
    return absl::nullopt;
  if (Ipv4Addr(group).IsBroadcast()) return Ipv4Addr::Broadcast();
  if (group > kIpv4GroupMask) return absl::nullopt;
  return Ipv4Addr(kIpv4GroupPrefix | group);
}

}  // namespace

std::string MulticastScope::ToString() const { return absl::StrCat("0x", absl::Hex(value())); }

IpoibGroup BroadcastGroup(const IpoibLink& link) {
  IpoibGroup group;
  group.link = {link.pkey.Full(), link.scope};
  group.ipv4 = Ipv4Addr::Broadcast();
  return group;
}

absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, Ipv4Addr destination) {
  if (!destination.IsMulticast() && !destination.IsBroadcast()) return absl::nullopt;
  IpoibGroup group = BroadcastGroup(link);
  group.ipv4 = destination;
  return group;
}

absl::optional<IpoibGroup> GroupOf(const IpoibLink& link, const Ipv6Addr& destination) {
  if (!destination.IsMulticast()) return absl::nullopt;
  IpoibGroup group;
  group.link = {link.pkey.Full(), link.scope};
  group.family = Family::kIpv6;
  std::copy(destination.bytes().end() - IpoibGroup::kIpv6IdSize, destination.bytes().end(),
            group.ipv6_id.begin());
  return group;
}

Mgid ToMgid(const IpoibGroup& group) {
  IpoibMgidWire wire;
  wire.flags_and_scope =
      static_cast<uint16_t>(kTransient | (group.link.scope.value() & kScopeMask));
  wire.pkey = group.link.pkey.Full().value();
  if (group.family == Family::kIpv4) {
    wire.signature = kIpv4Signature;
    WriteWire(be32(ToId(group.ipv4)), &wire.id[kIpv4Offset]);
  } else {
    wire.signature = kIpv6Signature;
    wire.id = group.ipv6_id;
  }
  return Mgid(Gid::FromWire(&wire));
}

absl::optional<IpoibGroup> ParseIpoibMgid(const Mgid& mgid) {
  const auto wire = ReadWire<IpoibMgidWire>(mgid.gid().bytes().data());
  const uint16_t flags = wire.flags_and_scope.value() & static_cast<uint16_t>(~kScopeMask);
  IpoibGroup group;
  group.link = {PKey(wire.pkey.value()), MulticastScope(wire.flags_and_scope.value() & kScopeMask)};
  if (flags != kTransient || !group.link.scope.IsValid() || !group.link.pkey.IsFullMember())
    return absl::nullopt;
  if (wire.signature.value() == kIpv6Signature) {
    group.family = Family::kIpv6;
    group.ipv6_id = wire.id;
    return group;
  }
  const absl::optional<Ipv4Addr> ipv4 = ParseId(wire.id);
  if (wire.signature.value() != kIpv4Signature || !ipv4.has_value()) return absl::nullopt;
  group.ipv4 = *ipv4;
  return group;
}

}  // namespace eoib
