// TapSet: the TAPs of a process, whose netdevs are to be deleted together.
//
// A netdev that is deleted by itself costs some 20 ms, in which the kernel waits for RCU grace periods; 600 cost 12 s. Netdevs
// that one request deletes share these waits.
#ifndef EOIB_VSWITCH_PORT_TAP_SET_H_
#define EOIB_VSWITCH_PORT_TAP_SET_H_

#include <set>

#include "absl/status/status.h"

namespace eoib {

class TapPort;

// Control thread. Must outlive its ports, which enter and leave it by themselves (TapPort::Options::set).
class TapSet {
 public:
  TapSet() = default;
  TapSet(const TapSet&) = delete;
  TapSet& operator=(const TapSet&) = delete;

  // Before the ports are destroyed: deletes the netdevs of all that are in the calling thread's network namespace, by one
  // request, under whatever names they have by now. The others', and all after an error, go one by one with their ports.
  absl::Status DeleteNetdevs() const;

 private:
  friend class TapPort;

  std::set<const TapPort*> ports_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_TAP_SET_H_
