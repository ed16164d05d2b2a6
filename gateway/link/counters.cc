#include "gateway/link/counters.h"

#include "vswitch/base/daemon/counter_text.h"

namespace eoib::ipoib {

Json StatsJson(const Counters& counters, size_t under_way) {
  Json json;
  AddCounters(counters, &json);
  json["under_way"] = under_way;
  json["receive_drops"] = counters.drops.Sum(DropReason{}, DropReason::kLinkDown);
  json["send_drops"] = counters.drops.Sum(DropReason::kLinkDown);
  return json;
}

}  // namespace eoib::ipoib
