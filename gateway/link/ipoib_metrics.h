// Metrics of an IPoIB link, and of drop reasons in a LabelledCounters.
#ifndef EOIB_GATEWAY_LINK_IPOIB_METRICS_H_
#define EOIB_GATEWAY_LINK_IPOIB_METRICS_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "gateway/link/counters.h"
#include "vswitch/base/counters.h"
#include "vswitch/base/daemon/metric_set.h"

namespace eoib::ipoib {

// Adds a series with the label "reason" for each reason, also for those that have not occurred.
template <typename Name>
void CollectDrops(absl::string_view metric, absl::string_view help, const MetricSet::Labels& labels,
                  const LabelledCounters<Name>& drops, MetricSet* metrics) {
  drops.ForEach([&](const char* label, uint64_t count, const char*) {
    MetricSet::Labels all = labels;
    all.push_back({"reason", label});
    metrics->Counter(metric, help, std::move(all), count);
  });
}

// Of the link, whose name is in `labels`. `drops` is a copy of the counters' drops, made by the
// thread of the data path.
void CollectLink(const MetricSet::Labels& labels, const Counters& counters,
                 const LabelledCounters<DropReason>& drops, size_t under_way, MetricSet* metrics);

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_IPOIB_METRICS_H_
