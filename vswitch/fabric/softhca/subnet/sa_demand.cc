#include "vswitch/fabric/softhca/subnet/sa_demand.h"

#include <iterator>

namespace eoib::softhca {

uint32_t MtuOrder(uint8_t code) { return static_cast<uint32_t>(MtuBytes(code)); }

uint32_t LifeOrder(uint8_t code) { return code + 1u; }

uint32_t RateMbps(uint8_t code) {
  static constexpr uint32_t kMbps[] = {0,      0,      2500,   10000, 30000, 5000,   20000,  40000,
                                       60000,  80000,  120000, 14000, 56000, 112000, 168000, 25000,
                                       100000, 200000, 300000, 28000, 50000, 400000, 600000};
  return code < std::size(kMbps) ? kMbps[code] : 0;
}

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
