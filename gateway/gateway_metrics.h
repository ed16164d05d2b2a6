// The metrics of the gateways of a process.
#ifndef EOIB_GATEWAY_GATEWAY_METRICS_H_
#define EOIB_GATEWAY_GATEWAY_METRICS_H_

#include "gateway/translation/gateway.h"
#include "vswitch/base/daemon/metric_set.h"

namespace eoib::gateway {

// Control thread. Waits for the gateways' workers, half a second at most.
void CollectGateways(const Gateways& gateways, MetricSet* metrics);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_GATEWAY_METRICS_H_
