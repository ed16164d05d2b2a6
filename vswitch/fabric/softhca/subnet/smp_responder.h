// SmpResponder: answers subnet management packets (IBA 1.4 §14) on behalf of all ports of a software subnet and of its switch.
//
// A packet routed by LID goes to a port, or to the switch under the subnet manager's LID. Along a directed route, hop 0 is the
// port that asks, one hop by port 1 the switch, and one more by port N of the switch what is plugged in there.
//
// Get only, of NodeInfo, NodeDescription, PortInfo, P_KeyTable, GUIDInfo, of the switch SwitchInfo too, and SMInfo while it
// runs the subnet manager. As on a fabric without M_Keys, everybody may read everything; nobody may set anything, since the
// subnet is fabricd's to configure. A packet to where nobody is, or along a route that leads nowhere, is lost.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SMP_RESPONDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SMP_RESPONDER_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/wire/smp.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class SmpResponder {
 public:
  struct Counters {
    uint64_t requests = 0;  // answered, with whatever status
    uint64_t lost = 0;      // malformed, no request, or no way to where it was sent
  };

  // `ports` outlives the responder.
  explicit SmpResponder(const ManagedPorts* ports) : ports_(ports) {}

  // The answer to `mad` that the port `from` sent to `destination` (which a directed route does not look at), if there is one.
  absl::optional<Mad> Respond(const ManagedPort& from, Lid destination, const Mad& mad);
  const Counters& counters() const { return counters_; }

 private:
  // Where a packet has arrived.
  struct Node {
    const ManagedPort* port;  // null: the switch
    uint8_t entered_by;       // its port
  };

  absl::optional<Node> NodeOfLid(const ManagedPort& from, Lid destination) const;
  // Fills in the return path.
  absl::optional<Node> Walk(const ManagedPort& from, SmpHeader* header) const;
  const ManagedPort* PluggedInto(uint8_t switch_port) const;

  MadStatus Answer(const Node& node, const SmpHeader& request, absl::Span<uint8_t> data) const;
  MadStatus AnswerOfPort(const ManagedPort& port, const SmpHeader& request, absl::Span<uint8_t> data) const;
  MadStatus AnswerOfSwitch(const Node& node, const SmpHeader& request, absl::Span<uint8_t> data) const;
  MadStatus SwitchPortInfo(uint8_t number, uint8_t entered_by, absl::Span<uint8_t> data) const;

  const ManagedPorts* const ports_;
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SMP_RESPONDER_H_
