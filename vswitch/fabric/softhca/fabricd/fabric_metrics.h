// The metrics of the software subnet.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_METRICS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_METRICS_H_

#include "control/daemon/metric_set.h"
#include "vswitch/fabric/softhca/subnet/fabric_server.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"

namespace eoib::softhca {

void CollectFabric(const Subnet& subnet, const FabricServer& server, MetricSet* metrics);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_FABRICD_FABRIC_METRICS_H_
