#include "gateway/endpoint/endpoint_metrics.h"

#include "gateway/ipoib/ipoib_metrics.h"

namespace eoib::endpoint {

void CollectHost(const IpHost& host, const MetricSet::Labels& labels, MetricSet* metrics) {
  const HostCounters& counters = host.counters();
#define EOIB_X(member, help) metrics->Counter("host_" #member, help, labels, counters.member);
  EOIB_HOST_COUNTERS(EOIB_X)
#undef EOIB_X
  metrics->Gauge("host_link_up", "1 if the IPoIB link is up", labels, host.link_state().has_value() ? 1 : 0);
  metrics->Gauge("host_neighbors", "neighbours on the link", labels, static_cast<double>(host.neighbors().size()));
  metrics->Gauge("host_waiting_packets", "packets that wait for a neighbour's address", labels,
                 static_cast<double>(host.neighbors().waiting()));
  metrics->Gauge("host_groups", "multicast groups that are listened to", labels,
                 static_cast<double>(host.memberships().Groups().size()));
  ipoib::CollectDrops("host_drops", "what the host dropped; eoibctl -t eoib-ipoib drops explains each reason", labels,
                      counters.drops, metrics);
}

}  // namespace eoib::endpoint
