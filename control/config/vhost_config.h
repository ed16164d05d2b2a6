// The keys of vPorts of virtual machines (type = "vhost-user").
//
// Include it after everything else, for the reason that table_reader.h gives.
#ifndef EOIB_CONTROL_CONFIG_VHOST_CONFIG_H_
#define EOIB_CONTROL_CONFIG_VHOST_CONFIG_H_

#include <vector>

#include "control/config/config.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib {

// Reads "socket" and "socket_mode" of a vPort whose type was read.
void ReadVhost(const TableReader& reader, VPortConfig* vport);

// Reports sockets of two vPorts.
void CheckSocketsDiffer(const std::vector<VPortConfig>& vports, Mistakes* mistakes);

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_VHOST_CONFIG_H_
