#include "gateway/link/ipoib_metrics.h"

namespace eoib::ipoib {

void CollectLink(const MetricSet::Labels& labels, const Counters& counters,
                 const LabelledCounters<DropReason>& drops, size_t under_way, MetricSet* metrics) {
  metrics->Counters("ipoib_", labels, counters);
  metrics->Gauge("ipoib_under_way",
                 "packets to send that wait for a path or for the completion of their send", labels,
                 static_cast<double>(under_way));
  CollectDrops("ipoib_drops",
               "what the IPoIB link dropped; the commands drops and link drops explain each reason",
               labels, drops, metrics);
}

}  // namespace eoib::ipoib
