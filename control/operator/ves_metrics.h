// The metrics of a VES and of an HCA port. The lists of counters give their names and help texts,
// so a new counter is a new metric.
#ifndef EOIB_CONTROL_OPERATOR_VES_METRICS_H_
#define EOIB_CONTROL_OPERATOR_VES_METRICS_H_

#include "control/ves/ves.h"
#include "vswitch/base/daemon/metric_set.h"
#include "vswitch/fabric/hca.h"

namespace eoib {

// Control thread.
void CollectVes(const Ves& ves, MetricSet* metrics);
void CollectHca(const Hca& hca, MetricSet* metrics);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_VES_METRICS_H_
