#include "gateway/translation/solicitation_sender.h"

#include <array>

#include "gateway/translation/nd_packet.h"
#include "vswitch/base/ethertype.h"
#include "vswitch/wire/ip/arp.h"

namespace eoib::translation {
namespace {

template <typename LinkAddress>
std::array<uint8_t, ArpPacket<LinkAddress>::kSize> ArpRequest(const LinkAddress& sender,
                                                              Ipv4Addr sender_ip,
                                                              const LinkAddress& target,
                                                              Ipv4Addr target_ip) {
  std::array<uint8_t, ArpPacket<LinkAddress>::kSize> bytes;
  EncodeArp(ArpPacket<LinkAddress>{ArpOperation::kRequest, sender, sender_ip, target, target_ip},
            absl::MakeSpan(bytes));
  return bytes;
}

}  // namespace

void SolicitationSender::SolicitEthernet(const Solicitation& solicitation) {
  if (!solicitation.target.is_ipv6()) {
    const auto arp = ArpRequest(solicitation.sender_mac, solicitation.sender_ip.ipv4(), MacAddr(),
                                solicitation.target.ipv4());
    return output_->ToEthernet(MacAddr::Broadcast(), solicitation.sender_mac, kEtherTypeArp, arp);
  }
  BuildSolicitation(solicitation.sender_ip.ipv6(), solicitation.sender_mac,
                    solicitation.target.ipv6(), false, &packet_);
  output_->ToEthernet(GroupMac(SolicitedNodeGroup(solicitation.target.ipv6())),
                      solicitation.sender_mac, kEtherTypeIpv6, packet_);
}

void SolicitationSender::SolicitIpoib(const Solicitation& solicitation, const Station* at) {
  const IpoibAddress own = output_->own();
  if (!solicitation.target.is_ipv6()) {
    const IpoibAddress target = at != nullptr ? at->address() : IpoibAddress();
    const auto arp =
        ArpRequest(own, solicitation.sender_ip.ipv4(), target, solicitation.target.ipv4());
    return at != nullptr ? output_->ToIpoib(IpoibType::kArp, arp, target)
                         : output_->Broadcast(IpoibType::kArp, arp);
  }
  // RFC 4861 §7.1.1: a solicitation from :: must have a multicast destination, even in a unicast
  // datagram.
  const bool direct = at != nullptr && !solicitation.sender_ip.IsUnspecified();
  BuildSolicitation(solicitation.sender_ip.ipv6(), own, solicitation.target.ipv6(), direct,
                    &packet_);
  if (at != nullptr) return output_->ToIpoib(IpoibType::kIpv6, packet_, at->address());
  output_->ToIpoibGroup(IpoibType::kIpv6, packet_, SolicitedNodeGroup(solicitation.target.ipv6()));
}

void SolicitationSender::AnnounceToEthernet(const IpAddr& ip, bool router, MacAddr mac) {
  if (!ip.is_ipv6()) {
    return output_->ToEthernet(MacAddr::Broadcast(), mac, kEtherTypeArp,
                               ArpRequest(mac, ip.ipv4(), MacAddr(), ip.ipv4()));
  }
  BuildAdvertisement(ip.ipv6(), router, mac, &packet_);
  output_->ToEthernet(GroupMac(kAllNodes), mac, kEtherTypeIpv6, packet_);
}

void SolicitationSender::AnnounceToIpoib(const IpAddr& ip, bool router) {
  if (!ip.is_ipv6()) {
    return output_->Broadcast(IpoibType::kArp,
                              ArpRequest(output_->own(), ip.ipv4(), IpoibAddress(), ip.ipv4()));
  }
  BuildAdvertisement(ip.ipv6(), router, output_->own(), &packet_);
  output_->ToIpoibGroup(IpoibType::kIpv6, packet_, kAllNodes);
}

}  // namespace eoib::translation
