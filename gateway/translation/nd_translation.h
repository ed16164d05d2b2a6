// NdTranslation: IPv6 neighbour discovery across the gateway (RFC 4861; RFC 4391 §9.3). nd_packet.h
// rewrites the messages; this class learns from them and forwards them, multicast to the same group
// of the other side, unicast to its host.
//
// Used by the Translator, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_ND_TRANSLATION_H_
#define EOIB_GATEWAY_TRANSLATION_ND_TRANSLATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/link/interface.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/delivery.h"
#include "gateway/translation/translation_state.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::translation {

class NdTranslation {
 public:
  NdTranslation(TranslationState* state, Delivery* delivery)
      : state_(*state), delivery_(*delivery) {}

  // `message` is the parsed form of `packet`, an IPv6 packet.
  Drop FromEthernet(const EthernetInfo& frame, absl::Span<const uint8_t> packet,
                    const NdMessage& message);
  Drop FromIpoib(const ipoib::Packet& packet, const NdMessage& message);

 private:
  void LearnRouter(const NdMessage& message);
  void Learn(const EthernetInfo& frame, const NdMessage& message);
  absl::optional<IpoibAddress> ToIpoib(MacAddr mac) const;

  Drop Sender(const ipoib::Packet& packet, const NdMessage& message, IpoibAddress* sender) const;
  const Station* Learn(const IpoibAddress& sender, const NdMessage& message);
  absl::optional<MacAddr> ToEthernet(const NdMessage& message, const IpoibAddress& address) const;

  TranslationState& state_;
  Delivery& delivery_;
  std::vector<uint8_t> out_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ND_TRANSLATION_H_
