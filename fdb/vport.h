// vPort identifiers: dense indices into an agent's vPort directory of one VES.
#ifndef EOIB_FDB_VPORT_H_
#define EOIB_FDB_VPORT_H_

#include <cstdint>

#include "fdb/address.h"

namespace eoib {

// A vPort of a VES as this agent knows it: one of its own, or (all vPorts behind a remote QP being one until they are
// announced) a remote peer. The value indexes the VES's VPortDirectory and is never reused for another address while
// the FDB may still hold it.
class VPortId : public Number<struct VPortIdTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr VPortId None() { return VPortId(0xffffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_H_
