// Delivery: brings a packet from IPoIB to the one Ethernet host that it is for.
//
// The host is known by its IP address, or asked for while the packet waits; or it is beyond the link, and the packet goes to a
// router (see OnLink). Where nobody has said which addresses are on the link, the host itself is tried first, the router if it
// does not answer.
//
// Used by the translations, on their thread.
#ifndef EOIB_GATEWAY_TRANSLATION_DELIVERY_H_
#define EOIB_GATEWAY_TRANSLATION_DELIVERY_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/address.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/knowledge.h"
#include "gateway/translation/questioner.h"

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

  // kNone: sent. kHeld: waits. Or why neither. Requires k->output.Obstacle() == kNone.
  Drop ToNeighbor(const Packet& packet, absl::Span<const uint8_t> bytes);
  // Asks again for what is waited for, and gives up.
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
