// Delivery: sends a unicast packet from IPoIB to its Ethernet host.
//
// The host's MAC address comes from Neighbors; if it is unknown, the gateway solicits it while the packet waits. A packet for
// an address beyond the link goes to a router (see OnLink). If no prefix of the link is known, the gateway tries the host
// first, and a router if the host does not answer.
//
// Used by the translations, on their thread.
#ifndef EOIB_GATEWAY_TRANSLATION_DELIVERY_H_
#define EOIB_GATEWAY_TRANSLATION_DELIVERY_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/knowledge.h"
#include "gateway/translation/questioner.h"
#include "vswitch/base/address.h"

namespace eoib::translation {

class Delivery {
 public:
  struct Packet {
    IpAddr source;
    IpAddr destination;
    MacAddr station;  // the sender's
    uint16_t ethertype = 0;
  };

  explicit Delivery(Knowledge* knowledge) : k_(*knowledge), questioner_(&k_.output) {}

  // kNone if sent, kHeld if the packet waits, else the reason to drop it. Requires k_.output.Obstacle() == kNone.
  Drop ToNeighbor(const Packet& packet, absl::Span<const uint8_t> bytes);
  // Retries solicitations, and gives up those without an answer.
  void Tick();

 private:
  Drop ToRouter(const Packet& packet, absl::Span<const uint8_t> bytes);
  Drop Hold(const IpAddr& next_hop, const Packet& packet, absl::Span<const uint8_t> bytes);
  Drop Ask(const IpAddr& next_hop, const Packet& packet);
  absl::optional<IpAddr> Router(bool ipv6) const;
  void AskAgain(const Question& question);
  void GiveUp(const IpAddr& target);

  Knowledge& k_;
  Questioner questioner_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_DELIVERY_H_
