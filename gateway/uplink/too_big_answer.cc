#include "gateway/uplink/too_big_answer.h"

#include <algorithm>

#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ethernet.h"
#include "vswitch/wire/ip/icmp_error.h"
#include "vswitch/wire/ip/ip_packet.h"

namespace eoib::gateway {

std::vector<uint8_t> TooBigAnswer::For(absl::Span<const uint8_t> frame, size_t mtu,
                                       absl::Time now) {
  EthernetInfo ethernet;
  if (ParseEthernet(frame, &ethernet) != DropReason::kNone) return {};
  if (ethernet.destination.IsGroup() || ethernet.source.IsGroup()) return {};
  const absl::Span<const uint8_t> bytes = frame.subspan(ethernet.payload);
  IcmpErrorBuffer buffer;
  absl::Span<const uint8_t> error;
  if (ethernet.ethertype == kEtherTypeIpv4) {
    const absl::optional<Ipv4Packet> packet = ParseIpv4Packet(bytes);
    if (packet)
      error = BuildFragmentationNeeded(*packet, mtu, sources_.ipv4.value_or(packet->destination),
                                       &buffer);
  } else if (ethernet.ethertype == kEtherTypeIpv6) {
    const absl::optional<Ipv6Packet> packet = ParseIpv6Packet(bytes);
    if (packet)
      error = BuildPacketTooBig(*packet, mtu, sources_.ipv6.value_or(packet->destination), &buffer);
  }
  if (error.empty()) return {};
  if (!budget_.Take(now)) {
    ++limited_;
    return {};
  }
  ++sent_;
  std::vector<uint8_t> answer(frame.begin(), frame.begin() + ethernet.payload);
  ethernet.source.ToWire(answer.data());
  own_.ToWire(answer.data() + MacAddr::kSize);
  answer.insert(answer.end(), error.begin(), error.end());
  answer.resize(std::max(answer.size(), ethernet.tagged ? kMinTaggedFrameSize : kMinFrameSize));
  return answer;
}

}  // namespace eoib::gateway
