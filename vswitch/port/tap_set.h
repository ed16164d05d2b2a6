// TapSet: the TAPs of a process, for deleting their netdevs together.
//
// Deleting a single netdev takes some 20 ms, in which the kernel waits for RCU grace periods; 600 take 12 s. Netdevs that one
// request deletes share these waits.
#ifndef EOIB_VSWITCH_PORT_TAP_SET_H_
#define EOIB_VSWITCH_PORT_TAP_SET_H_

#include <set>

#include "absl/status/status.h"

namespace eoib {

class TapPort;

// For the control thread. Outlives its ports, which add and remove themselves (TapPort::Options::set).
class TapSet {
 public:
  TapSet() = default;
  TapSet(const TapSet&) = delete;
  TapSet& operator=(const TapSet&) = delete;

  // Call it before the ports are destroyed. Deletes, in one request, the netdevs of all ports that are in the calling thread's
  // network namespace, under their current names. The other netdevs, and all after an error, are deleted with their ports.
  absl::Status DeleteNetdevs() const;

 private:
  friend class TapPort;

  std::set<const TapPort*> ports_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_SET_H_
