// Rates of a link: IBA's codes for them (IBA 1.4 §15.2.5.16), and the width and speed behind each.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_LINK_RATE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_LINK_RATE_H_

#include <cstdint>

namespace eoib::softhca {

// As PortInfo codes them (IBA 1.4 §14.2.5.6).
struct LinkForm {
  uint8_t width, speed;
};
// 4x at single data rate for a code that is none.
LinkForm LinkFormOf(uint8_t rate);

// In Mb/s, since codes are not in the order of speeds; 0 for a code that is none.
uint32_t RateMbps(uint8_t rate);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_LINK_RATE_H_
