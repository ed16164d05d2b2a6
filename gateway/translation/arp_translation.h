// ArpTranslation: ARP and RARP across the gateway (RFC 826, RFC 903, RFC 5227; RFC 4391 §9.2).
// Operation and protocol addresses stay, hardware addresses become those of the other side. A
// broadcast stays a broadcast, unicast stays unicast.
//
// Used by the Translator, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_ARP_TRANSLATION_H_
#define EOIB_GATEWAY_TRANSLATION_ARP_TRANSLATION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "gateway/link/interface.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/translation_state.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib::translation {

class ArpTranslation {
 public:
  explicit ArpTranslation(TranslationState* state) : state_(*state) {}

  Drop FromEthernet(const EthernetInfo& frame, absl::Span<const uint8_t> payload);
  Drop FromIpoib(const ipoib::Packet& packet);

 private:
  void Learn(const EthernetArp& arp, bool direct);
  void Remember(const EthernetArp& arp);
  template <typename LinkAddress>
  Drop MayCross(const ArpPacket<LinkAddress>& arp, MacAddr requester);
  IpoibAddress ToIpoib(MacAddr mac) const;

  const Station* Learn(const IpoibArp& arp, bool direct);
  MacAddr ToEthernet(const IpoibAddress& address) const;
  Drop Deliver(IpoibType type, const IpoibArp& arp, const Station& sender);
  Drop Answer(IpoibType type, const IpoibArp& arp, const Station& sender);
  void Send(IpoibType type, const IpoibArp& arp, const Station& sender, MacAddr destination,
            MacAddr target);

  TranslationState& state_;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_ARP_TRANSLATION_H_
