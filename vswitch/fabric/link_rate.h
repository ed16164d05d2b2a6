// Link rates: IBA's rate codes (IBA 1.4 §15.2.5.16), with the width, speed and Mb/s of each.
#ifndef EOIB_VSWITCH_FABRIC_LINK_RATE_H_
#define EOIB_VSWITCH_FABRIC_LINK_RATE_H_

#include <cstdint>

namespace eoib {

// As PortInfo codes them (IBA 1.4 §14.2.5.6).
struct LinkForm {
  uint8_t width, speed;
};
// 4x at single data rate for an unknown code.
LinkForm LinkFormOf(uint8_t rate);
// The rate code of a width and speed; 0, "the port's rate", if the combination has none.
uint8_t RateOf(const LinkForm& link);

// In Mb/s, because the codes are not in order of speed; 0 for an unknown code.
uint32_t RateMbps(uint8_t rate);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_LINK_RATE_H_
