// The keys of vPorts on existing netdevs (type = "netdev").
//
// Include it after everything else, for the reason that table_reader.h gives.
#ifndef EOIB_CONTROL_CONFIG_NETDEV_CONFIG_H_
#define EOIB_CONTROL_CONFIG_NETDEV_CONFIG_H_

#include <vector>

#include "control/config/config.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib {

// Reads "netdev" of a vPort whose type was read.
void ReadNetdev(const TableReader& reader, VPortConfig* vport);

// Reports netdevs of two vPorts, and netdevs that are the TAPs of others.
void CheckNetdevsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_NETDEV_CONFIG_H_
