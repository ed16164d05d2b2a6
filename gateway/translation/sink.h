// Sink: receives the translation's output. The gateway implements it with a VES port and an IPoIB
// interface, tests with lists.
//
// The Translator calls it from its own functions, on their thread; a Sink must not call back. The
// bytes are valid until the function returns.
#ifndef EOIB_GATEWAY_TRANSLATION_SINK_H_
#define EOIB_GATEWAY_TRANSLATION_SINK_H_

#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ipoib_group.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::translation {

class Sink {
 public:
  virtual ~Sink() = default;
  // A frame without VLAN tag and padding, with correct checksums.
  virtual void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                          absl::Span<const uint8_t> payload) = 0;
  // Like Send, SendToGroup, Listen and Unlisten of ipoib::Interface.
  virtual void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload,
                       const IpoibAddress& to) = 0;
  virtual void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload,
                            const IpoibGroup& group, bool beyond_link) = 0;
  virtual void Listen(const IpoibGroup& group) = 0;
  virtual void Unlisten(const IpoibGroup& group) = 0;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_SINK_H_
