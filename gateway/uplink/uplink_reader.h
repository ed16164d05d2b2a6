// Reads [[uplink]] tables. Include it after everything else, as control/config/table_reader.h.
#ifndef EOIB_GATEWAY_UPLINK_UPLINK_READER_H_
#define EOIB_GATEWAY_UPLINK_UPLINK_READER_H_

#include <vector>

#include "control/config/config.h"
#include "gateway/uplink/uplink_config.h"

// After everything else.
#include "control/config/table_reader.h"

namespace eoib::gateway {

UplinkConfig ReadUplink(const toml::table& table, const std::vector<VesConfig>& veses,
                        Mistakes* mistakes);
// Reports two uplinks on one netdev, and two between the same VLANs.
void CheckUplinksDiffer(const std::vector<UplinkConfig>& uplinks, Mistakes* mistakes);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_UPLINK_UPLINK_READER_H_
