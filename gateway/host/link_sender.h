// LinkSender: sends a host's own ARP and neighbour discovery to an ipoib::Interface, and counts it.
//
// It sends nothing while the link is down. One thread; the Interface outlives it.
#ifndef EOIB_GATEWAY_HOST_LINK_SENDER_H_
#define EOIB_GATEWAY_HOST_LINK_SENDER_H_

#include <cstdint>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gateway/host/neighbor_messages.h"
#include "gateway/link/interface.h"

namespace eoib::endpoint {

class LinkSender {
 public:
  explicit LinkSender(ipoib::Interface* link) : link_(link) {}

  // This host's address on the link; absent while that is down.
  absl::optional<IpoibAddress> own() const {
    const auto state = link_->state();
    return state.has_value() ? absl::optional<IpoibAddress>(state->own) : absl::nullopt;
  }

  // Sends to one neighbour, or by broadcast.
  void SendArp(const IpoibArp& packet, const absl::optional<IpoibAddress>& to) {
    if (to.has_value()) return Send(IpoibType::kArp, ArpBytes(packet), *to);
    if (const auto state = link_->state())
      SendToGroup(IpoibType::kArp, ArpBytes(packet), BroadcastGroup(state->link));
  }
  void SendIpv6(const Bytes& packet, const IpoibAddress& to) { Send(IpoibType::kIpv6, packet, to); }
  // Interface::Reaches for a group of link-local scope.
  bool Reaches(const Ipv6Addr& group) {
    const auto state = link_->state();
    const auto at = state.has_value() ? GroupOf(state->link, group) : absl::nullopt;
    return at.has_value() && link_->Reaches(*at);
  }
  // Sends to a group of link-local scope.
  void SendIpv6ToGroup(const Bytes& packet, const Ipv6Addr& group) {
    const auto state = link_->state();
    if (!state.has_value()) return;
    if (const auto at = GroupOf(state->link, group)) SendToGroup(IpoibType::kIpv6, packet, *at);
  }
  // Packets given to the link.
  uint64_t said() const { return said_; }

 private:
  void Send(IpoibType type, absl::Span<const uint8_t> packet, const IpoibAddress& to) {
    ++said_;
    link_->Send(type, packet, to);
  }
  void SendToGroup(IpoibType type, absl::Span<const uint8_t> packet, const IpoibGroup& group) {
    ++said_;
    link_->SendToGroup(type, packet, group, /*beyond_link=*/false);
  }

  ipoib::Interface* const link_;
  uint64_t said_ = 0;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_LINK_SENDER_H_
