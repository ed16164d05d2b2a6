// Delivery: sends a unicast packet from IPoIB to its Ethernet host, whose MAC address it resolves,
// or to a router (README.md, "Routers and prefixes"). Used by the translations, on their thread.
#ifndef EOIB_GATEWAY_TRANSLATION_DELIVERY_H_
#define EOIB_GATEWAY_TRANSLATION_DELIVERY_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/solicitation_sender.h"
#include "gateway/translation/translation_state.h"
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

  explicit Delivery(TranslationState* state) : state_(*state), sender_(&state_.output) {}

  // kNone if sent, kHeld if the packet waits, else the reason to drop it. Requires
  // state_.output.Obstacle() == kNone.
  Drop ToNeighbor(const Packet& packet, absl::Span<const uint8_t> bytes);
  // Retries solicitations, and gives up those without an answer.
  void Tick();

 private:
  Drop ToRouter(const Packet& packet, absl::Span<const uint8_t> bytes);
  Drop Hold(const IpAddr& next_hop, const Packet& packet, absl::Span<const uint8_t> bytes);
  Drop Ask(const IpAddr& next_hop, const Packet& packet);
  absl::optional<IpAddr> Router(bool ipv6) const;
  void SolicitAgain(const Solicitation& solicitation);
  void GiveUp(const IpAddr& target);

  TranslationState& state_;
  SolicitationSender sender_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_DELIVERY_H_
