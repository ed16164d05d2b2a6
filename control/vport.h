// VPort: a vPort of this host, as control knows it.
#ifndef EOIB_CONTROL_VPORT_H_
#define EOIB_CONTROL_VPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/config/config.h"
#include "control/vport_speaker.h"
#include "vswitch/forwarder_counters.h"
#include "vswitch/port/interface_state.h"
#include "vswitch/port/port.h"

namespace eoib {

struct VPort {
  VPortConfig config;
  std::shared_ptr<void> companion;  // an object that `port` uses, destroyed after it; may be null
  std::unique_ptr<Port> port;
  std::vector<std::unique_ptr<Port>> further_ports = {};  // those of the VES's other queues
  VPortSpeaker* speaker = nullptr;                        // null, or a part of `companion`
  uint32_t index = 0;                                     // of the port in the forwarder
  bool is_new = false;                                    // the interface was made for this vPort, not found
  // Null, or makes the port of the VES's next queue. A VES with several queues needs it.
  std::function<std::unique_ptr<Port>()> make_queue = nullptr;
  std::function<absl::Status(int mtu)> set_mtu;
  std::function<absl::Status(bool up)> set_link;
  // Null, or takes over the settings of `config`, while the worker does not run.
  std::function<void(const VPortConfig& config)> adjust = nullptr;
  // Null, or limits the interface's super-frames to those that segments carry at this VES MTU.
  std::function<absl::Status(uint32_t ves_mtu)> limit_super_frames = nullptr;
  // Null, or removes the interface if the agent made it. To call when the vPort leaves the configuration; an orderly stop
  // leaves the interface.
  std::function<absl::Status()> remove_interface = nullptr;
  // Null, or whether somebody has deleted the interface; and makes it again, while the worker does not run. The port's
  // descriptor is to be watched again.
  std::function<bool()> is_lost = nullptr;
  std::function<absl::Status()> remake = nullptr;
  // Null, or asks the kernel for the state of the interface.
  std::function<absl::StatusOr<InterfaceState>()> query_interface = nullptr;
  // Null, or makes up for changes of an interface that is not the agent's; to call once a second, also while the worker runs.
  // Returns why the port is down, or nothing.
  std::function<std::string()> check = nullptr;
  // Null, or describes the interface: "netdev eth1, MTU 1500".
  std::function<std::string(uint32_t ves_mtu)> describe = nullptr;
  std::string trouble = {};  // why it is lost and not made again, or down
  // Null, or what it counted before it was attached the last time.
  std::unique_ptr<PortCounters> counted = nullptr;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_H_
