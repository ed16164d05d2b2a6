// VPortSpeaker: a protocol that a vPort speaks with its like in the same VES, such as the election
// of Ethernet uplinks.
//
// Its messages are frames of the switch's own EtherType, so no station can send one, and the HCA of
// the sender vouches for the GID that they come from. Other agents ignore them.
#ifndef EOIB_CONTROL_VPORT_VPORT_SPEAKER_H_
#define EOIB_CONTROL_VPORT_VPORT_SPEAKER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"

namespace eoib {

class Ves;

// Control thread only.
class VPortSpeaker {
 public:
  // The first byte of each message. The vPort protocol has its version there (vport_message.h).
  static constexpr uint8_t kFirstByte = 0xf0;

  virtual ~VPortSpeaker() = default;
  // A message of another agent of the VES. `ves` is the VES in which the vPort is now.
  virtual void OnMessage(Ves* ves, absl::Span<const uint8_t> payload, const PeerAddress& from) = 0;
  // Does what is due.
  virtual void Run(Ves* ves) = 0;
  virtual absl::Time NextDeadline() const = 0;
  // The agent stops, or the vPort leaves the VES. The worker sends messages once more.
  virtual void Leave(Ves* ves) = 0;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VPORT_VPORT_SPEAKER_H_
