// SmpResponder: answers subnet management packets (IBA 1.4 §14) for all ports of a software subnet
// and for its switch.
//
// A LID-routed packet reaches a port or the switch. The directed route without hops leads to the
// sending port, the route "1" to the switch, and the route "1, N" to the port at port N of the
// switch. Only Get is supported, because fabricd configures the subnet. Every port may read
// everything, as on a fabric without M_Keys.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SMP_RESPONDER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SMP_RESPONDER_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/softhca/subnet/managed_ports.h"
#include "vswitch/wire/ib/smp.h"

namespace eoib::softhca {

// Not thread-safe: the Subnet calls it under its mutex.
class SmpResponder {
 public:
  struct Counters {
    uint64_t requests = 0;  // answered, with whatever status
    uint64_t lost = 0;      // malformed, not a request, or no route to its destination
  };

  // `ports` outlives the responder.
  explicit SmpResponder(const ManagedPorts* ports) : ports_(ports) {}

  // Returns the answer to `mad`, which port `from` sent to `destination` (ignored for a directed
  // route); nullopt if the packet is lost.
  absl::optional<Mad> Respond(const ManagedPort& from, Lid destination, const Mad& mad);
  const Counters& counters() const { return counters_; }

 private:
  // The node at which a packet has arrived.
  struct Node {
    const ManagedPort* port;  // null: the switch
    uint8_t entered_by;       // the node's port by which it arrived: LocalPortNum in answers
  };

  absl::optional<Node> NodeOfLid(const ManagedPort& from, Lid destination) const;
  // Follows a directed route and fills in the return path. Nullopt: the route leads nowhere.
  absl::optional<Node> FollowRoute(const ManagedPort& from, SmpHeader* header) const;
  // The active port that is cabled to port `switch_port` of the switch; null if there is none.
  const ManagedPort* PortCabledTo(uint8_t switch_port) const;

  MadStatus Answer(const Node& node, const SmpHeader& request, absl::Span<uint8_t> data) const;
  MadStatus AnswerOfPort(const ManagedPort& port, const SmpHeader& request,
                         absl::Span<uint8_t> data) const;
  MadStatus AnswerOfSwitch(const Node& node, const SmpHeader& request,
                           absl::Span<uint8_t> data) const;
  MadStatus SwitchPortInfo(uint8_t number, uint8_t entered_by, absl::Span<uint8_t> data) const;

  const ManagedPorts* const ports_;
  Counters counters_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_SMP_RESPONDER_H_
