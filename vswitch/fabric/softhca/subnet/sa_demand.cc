#include "vswitch/fabric/softhca/subnet/sa_demand.h"

namespace eoib::softhca {

uint32_t MtuOrder(uint8_t code) { return static_cast<uint32_t>(MtuBytes(code)); }

uint32_t LifeOrder(uint8_t code) { return code + 1u; }

bool Accepts(const Demand& demand, uint8_t actual, CodeOrder order) {
  if (!demand.given) return true;
  switch (demand.selector) {
    case Selector::kGreaterThan:
      return order(actual) > order(demand.value);
    case Selector::kLessThan:
      return order(actual) < order(demand.value);
    case Selector::kExactly:
      return order(actual) == order(demand.value);
    case Selector::kLargest:
      return true;
  }
  return false;
}

absl::optional<uint8_t> Best(const Demand& demand, uint8_t limit, CodeOrder order) {
  constexpr uint8_t kCodes = 64;  // MTU, rate and lifetime codes have 6 bits
  absl::optional<uint8_t> best;
  for (uint8_t code = 0; code < kCodes; ++code) {
    if (order(code) == 0 || order(code) > order(limit) || !Accepts(demand, code, order)) continue;
    if (!best.has_value() || order(code) > order(*best)) best = code;
  }
  return best;
}

}  // namespace eoib::softhca
