#include "vswitch/wire/mgid.h"

#include <array>

#include "vswitch/base/byte_order.h"

namespace eoib {
namespace {

// The 2013 talk's Table 19.
struct VesMgidWire {
  be32 prefix;
  be16 pkey;
  std::array<uint8_t, MacAddr::kSize> dmac{};
  be32 version_type_ns_vid;  // version 4 | type 2 | NS 2 | reserved 12 | VID 12
};
static_assert(sizeof(VesMgidWire) == Gid::kSize);

}  // namespace

Mgid FloodMgid(PKey pkey, uint32_t prefix) {
  VesMgidWire wire;
  wire.prefix = prefix;
  wire.pkey = pkey.Full().value();
  wire.dmac = MacAddr::Broadcast().bytes();
  return Mgid(Gid::FromWire(&wire));
}

}  // namespace eoib
