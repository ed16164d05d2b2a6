// What a VPortDirectory knows of a vPort: its addresses, its capabilities, its state.
#ifndef EOIB_FDB_VPORT_ADDRESS_H_
#define EOIB_FDB_VPORT_ADDRESS_H_

#include <cstdint>

#include "fdb/address.h"

namespace eoib {

// The index of an address handle in vswitch/fabric's table. None: not resolved yet.
class AhIndex : public Number<struct AhIndexTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr AhIndex None() { return AhIndex(0xffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

// Which of the two encapsulation headers a frame carries (vswitch/wire/wire_format.md).
enum class HeaderForm : uint8_t { kEoib, kAlternative };

// Of an address, and of a vPort: the best that one of its addresses has.
enum class VPortState : uint8_t {
  kLost,        // said to be unreachable
  kUnresolved,  // no address handle yet
  kUp,
};

// A queue pair at which a vPort receives, and the way to it.
struct VPortAddress {
  PeerAddress peer;
  uint8_t hca_port = 1;  // ours, by which it is reached
  Lid lid;               // as last known, from its path's record or its datagrams; 0 if that is not known, and on RoCE
  AhIndex ah = AhIndex::None();
  bool lost = false;

  VPortState state() const {
    if (lost) return VPortState::kLost;
    return ah.IsNone() ? VPortState::kUnresolved : VPortState::kUp;
  }
};

// What a vPort's agent takes. Of one that has announced nothing, the defaults hold: it is data-only.
struct VPortCapabilities {
  bool announced = false;
  HeaderForm header_form = HeaderForm::kEoib;
  uint8_t segments = 1;  // into how many pieces a frame for it may be cut, at most 32; 1: none
  uint32_t mtu = 0;      // bytes of a frame, from the destination MAC on; 0: the VES's

  friend constexpr bool operator==(const VPortCapabilities&, const VPortCapabilities&) = default;
};

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_ADDRESS_H_
