// The data of a vPort in a VPortDirectory: addresses, capabilities, state.
#ifndef EOIB_FDB_VPORT_ADDRESS_H_
#define EOIB_FDB_VPORT_ADDRESS_H_

#include <cstdint>

#include "vswitch/base/address.h"

namespace eoib {

// The index of an address handle in vswitch/fabric's table. None() if it is not resolved yet.
class AhIndex : public Number<struct AhIndexTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr AhIndex None() { return AhIndex(0xffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

// The encapsulation header of a frame (vswitch/wire/wire_format.md).
enum class HeaderForm : uint8_t { kEoib, kAlternative };

// The state of an address. A vPort has the best state of its addresses.
enum class VPortState : uint8_t {
  kLost,        // reported unreachable
  kUnresolved,  // no address handle yet
  kUp,
};

// A queue pair at which a vPort receives, and the path to it.
struct VPortAddress {
  PeerAddress peer;
  uint8_t hca_port = 1;  // our port, through which it is reached
  // Last known LID, from its path record or its datagrams; 0 if unknown, and on RoCE.
  Lid lid;
  AhIndex ah = AhIndex::None();
  bool lost = false;

  VPortState state() const {
    if (lost) return VPortState::kLost;
    return ah.IsNone() ? VPortState::kUnresolved : VPortState::kUp;
  }
};

// The capabilities of a vPort's agent. The defaults apply to an agent that has announced nothing
// (data-only).
struct VPortCapabilities {
  static constexpr uint8_t kMaxSegments = 32;

  bool announced = false;
  HeaderForm header_form = HeaderForm::kEoib;
  // The most segments that it takes for a frame, at most kMaxSegments; 1: no segmentation.
  uint8_t segments = 1;
  uint32_t mtu = 0;  // bytes of a frame, from the destination MAC on; 0: the VES's MTU

  // We cut a frame into as many segments as it takes, or not at all.
  bool TakesSegments() const {
    return announced && header_form == HeaderForm::kEoib && segments >= kMaxSegments;
  }

  friend constexpr bool operator==(const VPortCapabilities&, const VPortCapabilities&) = default;
};

}  // namespace eoib

#endif  // EOIB_FDB_VPORT_ADDRESS_H_
