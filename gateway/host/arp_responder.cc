#include "gateway/host/arp_responder.h"

namespace eoib::endpoint {

void ArpResponder::OnArp(const IpoibArp& packet) {
  // Our own packet, brought back by a loop beyond this link.
  if (packet.sender == link_->own()) return;
  const IpAddr sender(packet.sender_ip), target(packet.target_ip);
  const ArpPurpose purpose = PurposeOf(packet);
  if (purpose == ArpPurpose::kReverseRequest || purpose == ArpPurpose::kReverseReply) return;
  // RFC 5227 §2.1.1, §2.4: any ARP packet claims its sender IP address.
  if (!sender.IsUnspecified()) dad_->OnClaim(sender, packet.sender);
  if (purpose == ArpPurpose::kProbe) dad_->OnProbe(target, packet.sender, {});
  if (packet.operation == ArpOperation::kRequest && purpose != ArpPurpose::kGratuitous)
    return OnRequest(packet);
  neighbors_->OnAdvertisement(sender, packet.sender, addresses_->IsAssigned(target),
                              /*overrides=*/true);
}

// RFC 826: learn the sender of a request for this host; a request for another host only updates an
// existing entry.
void ArpResponder::OnRequest(const IpoibArp& packet) {
  const IpAddr sender(packet.sender_ip);
  if (!addresses_->IsAssigned(IpAddr(packet.target_ip))) {
    return neighbors_->OnAdvertisement(sender, packet.sender, /*solicited=*/false,
                                       /*overrides=*/true);
  }
  if (!sender.IsUnspecified() && !addresses_->IsAssigned(sender))
    neighbors_->OnSolicitation(sender, packet.sender);
  const auto own = link_->own();
  if (!own.has_value()) return;
  link_->SendArp({ArpOperation::kReply, *own, packet.target_ip, packet.sender, packet.sender_ip},
                 packet.sender);
}

bool ArpResponder::Request(Ipv4Addr target, const absl::optional<IpoibAddress>& at) {
  const auto source = addresses_->SourceFor(IpAddr(target));
  return source.has_value() && SendRequest(source->ipv4(), target, at);
}

bool ArpResponder::SendRequest(Ipv4Addr source, Ipv4Addr target,
                               const absl::optional<IpoibAddress>& at) {
  const auto own = link_->own();
  if (own.has_value())
    link_->SendArp({ArpOperation::kRequest, *own, source, IpoibAddress(), target}, at);
  return own.has_value();
}

}  // namespace eoib::endpoint
