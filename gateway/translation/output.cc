#include "gateway/translation/output.h"

namespace eoib::translation {
namespace {

// RFC 1112 §6.4: followed by 23 bits of the address.
constexpr uint64_t kIpv4Groups = 0x0100'5e00'0000;
constexpr uint32_t kIpv4GroupBits = 0x007f'ffff;

}  // namespace

MacAddr GroupMac(const IpAddr& group) {
  if (!group.is_ipv6()) {
    if (!group.IsMulticast()) return MacAddr::Broadcast();
    return MacAddr::FromUint64(kIpv4Groups | (group.ipv4().value() & kIpv4GroupBits));
  }
  const auto& bytes = group.ipv6().bytes();
  return MacAddr({0x33, 0x33, bytes[12], bytes[13], bytes[14], bytes[15]});
}

bool Output::CanSend(size_t size, uint32_t mtu) {
  const bool withheld = Obstacle() != Drop::kNone;
  if (!withheld && size <= mtu) return true;
  counters_->Add(withheld ? Drop::kOutputWithheld : Drop::kOutputTooBig);
  return false;
}

void Output::ToEthernet(MacAddr destination, MacAddr source, uint16_t ethertype,
                        absl::Span<const uint8_t> payload) {
  if (!CanSend(payload.size(), ethernet_mtu_)) return;
  counters_->Add(Event::kFramesOut);
  sink_->ToEthernet(destination, source, ethertype, payload);
}

void Output::ToIpoib(IpoibType type, absl::Span<const uint8_t> payload, const IpoibAddress& to) {
  if (!CanSend(payload.size(), ipoib_mtu())) return;
  counters_->Add(Event::kPacketsOut);
  sink_->ToIpoib(type, payload, to);
}

void Output::Broadcast(IpoibType type, absl::Span<const uint8_t> payload) {
  ToIpoibGroup(type, payload, Ipv4Addr::Broadcast());
}

void Output::ToIpoibGroup(IpoibType type, absl::Span<const uint8_t> payload, const IpAddr& group) {
  if (!CanSend(payload.size(), ipoib_mtu())) return;
  const auto to = GroupOf(link_->link, group);
  counters_->Add(Event::kPacketsOut);
  sink_->ToIpoibGroup(type, payload, *to, IsBeyondLink(group));
}

}  // namespace eoib::translation
