// The operator's view of vPorts: the commands vport/list (of all agents) and vport/show (of this
// host), and the vPorts in show.
#ifndef EOIB_CONTROL_OPERATOR_VPORT_COMMANDS_H_
#define EOIB_CONTROL_OPERATOR_VPORT_COMMANDS_H_

#include <string>
#include <vector>

#include "control/operator/ves_commands.h"
#include "control/ves/ves.h"
#include "control/vport/vport.h"
#include "vswitch/base/daemon/command_registry.h"

namespace eoib {

// For each vPort of this host, the other agents that have a vPort in one of its VLANs.
class VPortPeers {
 public:
  struct Count {
    size_t reachable = 0;
    size_t lost = 0;
  };

  explicit VPortPeers(const Ves& ves);
  Count CountOf(const VPort& vport) const;

 private:
  struct Peer {
    VlanSet vlans;
    bool reachable;
  };
  std::vector<Peer> peers_;
};

// What show has of a vPort; and its text, a line.
Json VPortJson(const Ves& ves, const VPort& vport, const VPortPeers& peers);
std::string VPortText(const Json& vport);

// {"received": 7, ...}
Json VPortCounters(const Ves& ves, const VPort& vport);

void RegisterVPortCommands(const VesFinder& finder, CommandRegistry* registry);

}  // namespace eoib

#endif  // EOIB_CONTROL_OPERATOR_VPORT_COMMANDS_H_
