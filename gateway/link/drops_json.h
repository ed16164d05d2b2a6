// LabelledCounters of drops in the operator's view.
#ifndef EOIB_GATEWAY_LINK_DROPS_JSON_H_
#define EOIB_GATEWAY_LINK_DROPS_JSON_H_

#include <nlohmann/json.hpp>

#include "gateway/link/labelled_counters.h"
#include "vswitch/base/daemon/counter_text.h"

namespace eoib::ipoib {

// A row (ExplainedCounter) for each counter that is not 0.
template <typename Name>
Json DropsJson(const LabelledCounters<Name>& counters) {
  Json rows = Json::array();
  counters.ForEach([&rows](Name, uint64_t count, const CounterInfo& info) {
    rows.push_back(ExplainedCounter(info.label, count, info.help));
  });
  return rows;
}

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_DROPS_JSON_H_
