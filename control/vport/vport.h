// VPort: a vPort of this host, as control knows it.
#ifndef EOIB_CONTROL_VPORT_VPORT_H_
#define EOIB_CONTROL_VPORT_VPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "control/vport/vport_speaker.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/port/interface_state.h"
#include "vswitch/port/port.h"

namespace eoib {

// What is outside of a vPort: a class for each kind. The functions here do nothing, for kinds that
// have nothing to do there. Control thread.
class VPortInterface {
 public:
  virtual ~VPortInterface() = default;

  // The port of the VES's next queue. Null: the kind has one queue only.
  virtual std::unique_ptr<Port> MakeQueue() { return nullptr; }
  virtual absl::Status SetMtu(int mtu) { return absl::OkStatus(); }
  virtual absl::Status SetLink(bool up) { return absl::OkStatus(); }
  // Limits super-frames to those that segments carry at this VES MTU.
  virtual absl::Status LimitSuperFrames(uint32_t ves_mtu) { return absl::OkStatus(); }
  // Takes over the keys of `config` that change in place, while the worker does not run.
  virtual void Adjust(const VPortConfig& config) {}

  // The vPort gets a new name, and its interface with it if the agent made that.
  virtual absl::Status Rename(const std::string& name) { return absl::OkStatus(); }

  // Removes the interface if the agent made it. Call it when the vPort leaves the configuration; an
  // orderly stop leaves the interface.
  virtual absl::Status Remove() { return absl::OkStatus(); }
  // Whether somebody has deleted the interface. Remake makes it again, while the worker does not
  // run; the port's descriptor is to be watched again.
  virtual bool IsLost() { return false; }
  virtual absl::Status Remake() { return absl::OkStatus(); }
  // Repairs settings that somebody else changed. Call it once a second, also while the worker runs.
  // Returns why the port is down, or ""; absent: the kind has nothing to repair.
  virtual absl::optional<std::string> Check() { return absl::nullopt; }

  // The state that the kernel tells. Absent: the kernel does not know the interface.
  virtual absl::optional<absl::StatusOr<InterfaceState>> Query() { return absl::nullopt; }
  // "netdev eth1, MTU 1500", or "".
  virtual std::string Describe(uint32_t ves_mtu) { return ""; }
  // The protocol that it speaks with its like, or null.
  virtual VPortSpeaker* speaker() { return nullptr; }
};

struct VPort {
  VPortConfig config;
  // It may be what `port` uses, and is destroyed after it.
  std::shared_ptr<VPortInterface> interface = std::make_shared<VPortInterface>();
  std::unique_ptr<Port> port;
  std::vector<std::unique_ptr<Port>> further_ports = {};  // those of the VES's other queues
  uint32_t index = 0;                                     // of the port in the forwarder
  bool is_new = false;       // the interface was made for this vPort, not found
  std::string trouble = {};  // why it is lost and not made again, or down
  // Null, or what it counted before it was attached the last time.
  std::unique_ptr<PortCounters> counted = nullptr;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_VPORT_H_
