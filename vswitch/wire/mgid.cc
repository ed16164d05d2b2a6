#include "vswitch/wire/mgid.h"

#include <array>

#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

// The 2013 talk's Table 19.
struct MgidWire {
  be32 prefix;
  be16 pkey;
  std::array<uint8_t, MacAddr::kSize> dmac{};
  be32 version_type_ns_vid;  // version 4 | type 2 | NS 2 | reserved 12 | VID 12
};
static_assert(sizeof(MgidWire) == Gid::kSize);

}  // namespace

Mgid ToMgid(const VesGroup& group) {
  MgidWire wire;
  wire.prefix = group.prefix;
  wire.pkey = group.pkey.Full().value();
  wire.dmac = group.dmac.bytes();
  wire.version_type_ns_vid = group.vid.value();
  return Mgid(Gid::FromWire(&wire));
}

Mgid FloodMgid(PKey pkey, uint32_t prefix) { return ToMgid({prefix, pkey, MacAddr::Broadcast(), Vid()}); }

absl::optional<VesGroup> ParseVesMgid(const Mgid& mgid) {
  const auto wire = ReadWire<MgidWire>(mgid.gid().bytes().data());
  const uint32_t last = wire.version_type_ns_vid.value();
  const VesGroup group{wire.prefix.value(), PKey(wire.pkey.value()), MacAddr(wire.dmac), Vid(static_cast<uint16_t>(last))};
  // A valid VID has 12 bits, so this comparison also checks that the upper fields of the last word are 0.
  if (last > Vid::kMax || !group.pkey.IsFullMember() || !group.pkey.IsValid()) return absl::nullopt;
  return group;
}

}  // namespace eoib
