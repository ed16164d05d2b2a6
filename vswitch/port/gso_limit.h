// The largest super-frame that the kernel hands to a netdev.
#ifndef EOIB_VSWITCH_PORT_GSO_LIMIT_H_
#define EOIB_VSWITCH_PORT_GSO_LIMIT_H_

#include <cstdint>

namespace eoib {

// Sets gso_max_size of the netdev `name`, by a request of rtnetlink(7) on the socket `netlink`. The kernel cuts super-frames of
// this size or more. Returns an errno value, or 0.
int SetGsoMaxSize(int netlink, const char* name, uint32_t bytes);

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_GSO_LIMIT_H_
