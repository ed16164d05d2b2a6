#include "gateway/uplink/station_adverts.h"

#include <array>

#include "gateway/uplink/wire_socket.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ip/arp.h"
#include "vswitch/wire/ip/neighbor_discovery.h"

namespace eoib::gateway {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes MakeArp(MacAddr station, Vid vid, uint16_t ethertype, const EthernetArp& arp) {
  std::array<uint8_t, EthernetArp::kSize> payload;
  EncodeArp(arp, absl::MakeSpan(payload));
  return MakeFrame(MacAddr::Broadcast(), station, vid, ethertype, payload);
}

Bytes MakeNeighborAdvertisement(MacAddr station, Vid vid, const Ipv6Addr& ip) {
  const Ipv6Addr all_nodes = *Ipv6Addr::Parse("ff02::1");
  Bytes packet;
  StartNeighborMessage(NdType::kNeighborAdvertisement, kNaOverride, ip, all_nodes, ip, &packet);
  AppendLinkAddressOption(NdOptionType::kTargetLinkAddress, station, &packet);
  FinishNeighborMessage(&packet);
  return MakeFrame(MacAddr::FromUint64(0x33'33'00'00'00'01), station, vid, kEtherTypeIpv6, packet);
}

}  // namespace

std::vector<Bytes> MakeStationAdverts(MacAddr station, Vid vid,
                                      absl::Span<const IpAddr> addresses) {
  if (addresses.empty()) {
    return {MakeArp(station, vid, kEtherTypeRarp,
                    {ArpOperation::kReverseRequest, station, Ipv4Addr(), station, Ipv4Addr()})};
  }
  std::vector<Bytes> frames;
  for (const IpAddr& ip : addresses) {
    frames.push_back(
        ip.is_ipv4() ? MakeArp(station, vid, kEtherTypeArp,
                               {ArpOperation::kRequest, station, ip.ipv4(), MacAddr(), ip.ipv4()})
                     : MakeNeighborAdvertisement(station, vid, ip.ipv6()));
  }
  return frames;
}

}  // namespace eoib::gateway
