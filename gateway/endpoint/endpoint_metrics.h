// The metrics of eoib-ipoib.
#ifndef EOIB_GATEWAY_ENDPOINT_ENDPOINT_METRICS_H_
#define EOIB_GATEWAY_ENDPOINT_ENDPOINT_METRICS_H_

#include "control/daemon/metric_set.h"
#include "gateway/endpoint/ip_host.h"

namespace eoib::endpoint {

// `labels` has the name of the netdev.
void CollectHost(const IpHost& host, const MetricSet::Labels& labels, MetricSet* metrics);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_ENDPOINT_METRICS_H_
