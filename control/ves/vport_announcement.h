// The announcement of a vPort: ours, from its configuration; those of another agent, as VLANs.
#ifndef EOIB_CONTROL_VES_VPORT_ANNOUNCEMENT_H_
#define EOIB_CONTROL_VES_VPORT_ANNOUNCEMENT_H_

#include <vector>

#include "control/protocol/agent_view.h"
#include "control/ves/local_claims.h"
#include "control/vport/vport.h"
#include "vswitch/forwarder/vlan_policy.h"
#include "vswitch/wire/vport_message.h"

namespace eoib {

AnnouncedVPort ToAnnounced(const VPort& vport);
// The MACs that the configuration gives a vPort: its interface's, and static ones.
std::vector<LocalClaims::ConfiguredMac> ConfiguredMacs(const VPort& vport);

// The VLANs of another agent's vPorts, for floods; all while its state is not known, so its guests
// miss none. A vPort that has more ranges than ToAnnounced gives one counts in all VLANs between,
// so that the work is bounded.
VlanSet VlansOf(const AgentView& view);

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VPORT_ANNOUNCEMENT_H_
