// The multicast GIDs of a VES (Table 19 of the 2013 EoIB talk). Only this file defines them.
//
//     prefix 32 | P_Key 16 | DMAC 48 | version 4 | type 2 | NS 2 | reserved 12 | VID 12
#ifndef EOIB_VSWITCH_WIRE_MGID_H_
#define EOIB_VSWITCH_WIRE_MGID_H_

#include <cstdint>

#include "vswitch/base/address.h"

namespace eoib {

// ff12: transient, link-local scope; e01b: this protocol's signature.
inline constexpr uint32_t kDefaultMgidPrefix = 0xff12'e01b;

// The MGID of the flood group of a VES: the P_Key in full-member form, DMAC ff:ff:ff:ff:ff:ff, all
// else 0.
Mgid FloodMgid(PKey pkey, uint32_t prefix = kDefaultMgidPrefix);

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_MGID_H_
