#include "gateway/link/counters.h"

#include <nlohmann/json.hpp>

namespace eoib::ipoib {

Json StatsJson(const Counters& counters, size_t under_way) {
  Json json;
#define EOIB_X(member, help) json[#member] = counters.member.value();
  EOIB_IPOIB_COUNTERS(EOIB_X)
#undef EOIB_X
  json["under_way"] = under_way;
  json["receive_drops"] = counters.drops.Sum(DropReason{}, DropReason::kLinkDown);
  json["send_drops"] = counters.drops.Sum(DropReason::kLinkDown);
  return json;
}

}  // namespace eoib::ipoib
