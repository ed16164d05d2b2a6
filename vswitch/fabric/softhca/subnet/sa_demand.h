// Demand: a request's condition on an MTU, a rate or a packet lifetime, as a selector and a value
// (IBA 1.4 §15.2.5.16). MCMemberRecord and PathRecord share it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_DEMAND_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_DEMAND_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "vswitch/fabric/link_rate.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib::softhca {

// A condition needs both the selector and the value, except that "the largest" needs no value.
struct Demand {
  bool given = false;
  Selector selector = Selector::kExactly;
  uint8_t value = 0;

  Demand(uint64_t mask, uint64_t selector_bit, uint64_t value_bit, Selector s, uint8_t v)
      : selector(s), value(v) {
    given = (mask & selector_bit) != 0 && ((mask & value_bit) != 0 || s == Selector::kLargest);
  }
};

// Maps a code to a number in the order of what the codes mean; 0 for an unknown code.
using CodeOrder = uint32_t (*)(uint8_t code);
uint32_t MtuOrder(uint8_t code);
uint32_t LifeOrder(uint8_t code);  // and RateMbps of link_rate.h

bool Accepts(const Demand& demand, uint8_t actual, CodeOrder order);
// Returns the largest code up to `limit` that meets the demand.
absl::optional<uint8_t> Best(const Demand& demand, uint8_t limit, CodeOrder order);

inline constexpr uint8_t kPacketLife = 18;  // 4.096 us * 2^18, about a second: OpenSM's default

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SA_DEMAND_H_
