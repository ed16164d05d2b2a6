// What an agent announces of a vPort of its own, from the vPort's configuration.
#ifndef EOIB_CONTROL_VPORT_ANNOUNCEMENT_H_
#define EOIB_CONTROL_VPORT_ANNOUNCEMENT_H_

#include <vector>

#include "control/local_claims.h"
#include "control/vport.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

AnnouncedVPort ToAnnounced(const VPort& vport);
// The MACs that the configuration gives a vPort: its interface's, and static ones.
std::vector<LocalClaims::ConfiguredMac> ConfiguredMacs(const VPort& vport);

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_ANNOUNCEMENT_H_
