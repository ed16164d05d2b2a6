// InterfaceState: the netdev of a port as the kernel has it now, for the operator.
#ifndef EOIB_VSWITCH_PORT_INTERFACE_STATE_H_
#define EOIB_VSWITCH_PORT_INTERFACE_STATE_H_

#include <cstdint>
#include <string>

namespace eoib {

struct InterfaceState {
  std::string name;
  std::string
      network_namespace;  // empty: this process's; its name in /run/netns, or "net:[4026532281]"
  bool up = false;        // administratively
  bool carrier = false;
  uint32_t mtu = 0;
};

// The name of a network namespace, as in InterfaceState. `own` and `other` are descriptors of
// namespaces.
std::string NetworkNamespaceName(int own, int other);

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_INTERFACE_STATE_H_
