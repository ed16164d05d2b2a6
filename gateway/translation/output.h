// Output: the only way out of the translation, with the state of both links. It refuses packets
// while another gateway is active or the IPoIB link is down, and packets above the MTU of the side
// that they go to.
//
// Owned by the translation, on its thread.
#ifndef EOIB_GATEWAY_TRANSLATION_OUTPUT_H_
#define EOIB_GATEWAY_TRANSLATION_OUTPUT_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/link/interface.h"
#include "gateway/translation/counters.h"
#include "gateway/translation/sink.h"
#include "vswitch/base/address.h"
#include "vswitch/wire/ip/ip_address.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ipoib_group.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib::translation {

// The Ethernet address of an IP multicast group (RFC 1112 §6.4, RFC 2464 §7). Any other IPv4
// address maps to the broadcast address.
MacAddr GroupMac(const IpAddr& group);

class Output {
 public:
  Output(uint32_t ethernet_mtu, Sink* sink, Counters* counters)
      : ethernet_mtu_(ethernet_mtu), sink_(sink), counters_(counters) {}

  void SetLink(const absl::optional<ipoib::LinkState>& link) { link_ = link; }
  void SetActive(bool active) { active_ = active; }
  void SetEthernetMtu(uint32_t mtu) { ethernet_mtu_ = mtu; }

  bool is_active() const { return active_; }
  const absl::optional<ipoib::LinkState>& link() const { return link_; }
  // This gateway's address on IPoIB; zero while the link is down.
  IpoibAddress own() const { return link_.has_value() ? link_->own : IpoibAddress(); }
  uint32_t ethernet_mtu() const { return ethernet_mtu_; }
  uint32_t ipoib_mtu() const { return link_.has_value() ? link_->mtu : 0; }

  // kNone if packets can be sent now; else the reason to drop them.
  Drop Obstacle() const {
    return !link_.has_value() ? Drop::kLinkDown : active_ ? Drop::kNone : Drop::kStandby;
  }

  void ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                  absl::Span<const uint8_t> payload);
  void ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to);
  void Broadcast(IpoibType type, absl::Span<const uint8_t> payload);
  // Requires a multicast address, or IPv4's broadcast address.
  void ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpAddr& group);

 private:
  bool CanSend(size_t size, uint32_t mtu);

  uint32_t ethernet_mtu_;
  Sink* const sink_;
  Counters* const counters_;
  absl::optional<ipoib::LinkState> link_;
  bool active_ = true;
};

}  // namespace eoib::translation

#endif  // EOIB_GATEWAY_TRANSLATION_OUTPUT_H_
