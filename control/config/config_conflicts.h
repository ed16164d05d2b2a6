// Finds tables of a configuration that must not have a value in common.
//
// Include it after everything else, for the reason that table_reader.h gives.
#ifndef EOIB_CONTROL_CONFIG_CONFIG_CONFLICTS_H_
#define EOIB_CONTROL_CONFIG_CONFIG_CONFLICTS_H_

#include <vector>

#include "control/config/config.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib {

// Reports VESes of one name or partition.
void CheckVesesDiffer(const std::vector<VesConfig>& veses, Mistakes* mistakes);
// Reports vPorts of one name, netdev or socket, and those of a VES with one MAC.
void CheckVPortsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_CONFIG_CONFLICTS_H_
