// MakeTapVPort: a vPort whose frames enter and leave through a TAP that the agent makes.
#ifndef EOIB_CONTROL_VPORT_TAP_VPORT_H_
#define EOIB_CONTROL_VPORT_TAP_VPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "control/vport/vport.h"
#include "vswitch/base/address.h"
#include "vswitch/base/daemon/event_loop.h"
#include "vswitch/port/tap_set.h"

namespace eoib {

// The agent's TAPs. The pointers outlive the vPorts.
struct TapOwner {
  TapSet* taps;
  EventLoop* loop;
  std::string name;  // the state directory, which one agent at a time uses
};

// The alias of a TAP is this and the vPort's name.
std::string TapAliasPrefix(const std::string& owner);

// A vPort of type "tap". `super_frames`: segments of the VES carry frames larger than `mtu`. Errors
// as TapPort::Open.
absl::StatusOr<VPort> MakeTapVPort(const VPortConfig& config, const TapOwner& owner, MacAddr mac,
                                   int mtu, bool super_frames);

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_TAP_VPORT_H_
