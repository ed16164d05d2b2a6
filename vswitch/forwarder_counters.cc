#include "vswitch/forwarder_counters.h"

namespace eoib {

uint64_t ForwarderCounters::DropSum(DropSide side) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kDropReasons; ++i) {
    if (kDropReasonInfo[i].side == side) sum += drops[i].value();
  }
  return sum;
}

}  // namespace eoib
