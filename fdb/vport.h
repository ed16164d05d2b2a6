// VPortId: a dense index into an agent's vPort directory of one VES.
#ifndef EOIB_FDB_VPORT_H_
#define EOIB_FDB_VPORT_H_

#include <cstdint>

#include "vswitch/base/address.h"

namespace eoib {

// A vPort of a VES as this agent knows it: a local one, or a remote peer (until they are announced,
// all vPorts behind a remote QP are one). The value indexes the VES's VPortDirectory. It is not
// reused for another address while the FDB may still hold it.
class VPortId : public Number<struct VPortIdTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr VPortId None() { return VPortId(0xffffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_H_
