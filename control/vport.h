// VPort: a vPort of this host, as control knows it.
#ifndef EOIB_CONTROL_VPORT_H_
#define EOIB_CONTROL_VPORT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "control/config.h"
#include "vswitch/port/port.h"

namespace eoib {

struct VPort {
  VPortConfig config;
  std::shared_ptr<void> companion;  // an object that `port` uses, destroyed after it; may be null
  std::unique_ptr<Port> port;
  uint32_t index = 0;  // of the port in the forwarder
  std::function<absl::Status(int mtu)> set_mtu;
  std::function<absl::Status(bool up)> set_link;
  // Null, or limits the interface's super-frames to those that segments carry at this VES MTU.
  std::function<absl::Status(uint32_t ves_mtu)> limit_super_frames = nullptr;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_H_
