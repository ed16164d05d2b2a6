#include "gateway/host/nd_responder.h"

namespace eoib::endpoint {

NdResponder::Outcome NdResponder::OnMessage(const NdMessage& message,
                                            const absl::optional<IpoibAddress>& from) {
  // Our own message, brought back by a loop beyond this link.
  if (from.has_value() && from == link_->own()) return Outcome::kDone;
  switch (message.type) {
    case NdType::kNeighborSolicitation:
      return OnSolicitation(message, from);
    case NdType::kNeighborAdvertisement:
      return OnAdvertisement(message, from);
    case NdType::kRouterSolicitation:
    case NdType::kRouterAdvertisement:
    case NdType::kRedirect:
      return OnRouterMessage(message);
  }
  return Outcome::kInvalid;
}

// RFC 4861 §7.1.1, §7.2.3.
NdResponder::Outcome NdResponder::OnSolicitation(const NdMessage& message,
                                                 const absl::optional<IpoibAddress>& from) {
  if (message.target.IsMulticast() || message.source.IsMulticast()) return Outcome::kInvalid;
  if (message.source.IsUnspecified()) return OnDadSolicitation(message, from);
  if (!addresses_->IsAssigned(IpAddr(message.target))) return Outcome::kDone;
  Learn(message.source, FindLinkAddress(message, NdOptionType::kSourceLinkAddress));
  // The answer would be to ourselves.
  if (addresses_->IsAssigned(IpAddr(message.source))) return Outcome::kDone;
  ++answers_;
  neighbors_->Send(IpAddr(message.source), AnswerTo(message, message.source));
  return Outcome::kDone;
}

// RFC 4861 §7.2.4: the answer to a solicitation from :: goes to all nodes.
NdResponder::Outcome NdResponder::OnDadSolicitation(const NdMessage& message,
                                                    const absl::optional<IpoibAddress>& from) {
  if (message.destination != SolicitedNodeGroup(message.target)) return Outcome::kInvalid;
  if (FindLinkAddress(message, NdOptionType::kSourceLinkAddress).has_value())
    return Outcome::kInvalid;
  const bool assigned = addresses_->IsAssigned(IpAddr(message.target));
  dad_->OnProbe(IpAddr(message.target), from, Nonce(message.options.Find(NdOptionType::kNonce)));
  if (assigned) link_->SendIpv6ToGroup(AnswerTo(message, kAllNodes), kAllNodes);
  return Outcome::kDone;
}

Bytes NdResponder::AnswerTo(const NdMessage& solicitation, const Ipv6Addr& destination) const {
  return AdvertisementBytes({.source = solicitation.target,
                             .destination = destination,
                             .target = solicitation.target,
                             .router = IsRouter(),
                             .solicited = !destination.IsMulticast(),
                             .overrides = true,
                             .target_link = link_->own()});
}

// RFC 4861 §4.4: a router sets the R flag in each advertisement; without it, hosts drop it from
// their router list (§7.2.5). The kernel is in the all-routers group exactly on the interfaces on
// which it forwards (RFC 4291 §2.8).
bool NdResponder::IsRouter() const { return memberships_->KernelIsIn(IpAddr(kAllRouters6)); }

// RFC 4861 §7.1.2, §7.2.5; RFC 4862 §5.4.4.
NdResponder::Outcome NdResponder::OnAdvertisement(const NdMessage& message,
                                                  const absl::optional<IpoibAddress>& from) {
  const uint8_t flags = AdvertisementFlags(message);
  const bool solicited = (flags & kNaSolicited) != 0;
  if (message.target.IsMulticast() || (message.destination.IsMulticast() && solicited))
    return Outcome::kInvalid;
  const auto address = FindLinkAddress(message, NdOptionType::kTargetLinkAddress);
  if (address.has_value() && address == link_->own()) return Outcome::kDone;
  dad_->OnClaim(IpAddr(message.target), address.has_value() ? address : from);
  neighbors_->OnAdvertisement(IpAddr(message.target), address, solicited,
                              (flags & kNaOverride) != 0);
  return Outcome::kDone;
}

// RFC 4861 §6.1.1, §6.1.2, §6.3.4, §8.1, §8.3. The parser has checked the hop limit and the
// checksum.
NdResponder::Outcome NdResponder::OnRouterMessage(const NdMessage& message) {
  const bool redirect = message.type == NdType::kRedirect;
  if (message.type == NdType::kRouterSolicitation) {
    const auto address = FindLinkAddress(message, NdOptionType::kSourceLinkAddress);
    if (message.source.IsUnspecified() && address.has_value()) return Outcome::kInvalid;
  } else if (!message.source.IsLinkLocal()) {
    return Outcome::kInvalid;
  }
  if (redirect && message.target.IsMulticast()) return Outcome::kInvalid;
  const auto type = redirect ? NdOptionType::kTargetLinkAddress : NdOptionType::kSourceLinkAddress;
  Learn(redirect ? message.target : message.source, FindLinkAddress(message, type));
  return Outcome::kForKernel;
}

void NdResponder::Learn(const Ipv6Addr& ip, const absl::optional<IpoibAddress>& address) {
  if (!address.has_value() || ip.IsUnspecified() || ip.IsMulticast() ||
      addresses_->IsAssigned(IpAddr(ip)))
    return;
  neighbors_->OnSolicitation(IpAddr(ip), *address);
}

bool NdResponder::Solicit(const Ipv6Addr& target, const absl::optional<IpoibAddress>& at) {
  const auto source = addresses_->SourceFor(IpAddr(target));
  if (!link_->own().has_value() || !source.has_value()) return false;
  const Ipv6Addr group = SolicitedNodeGroup(target);
  const Bytes packet = SolicitationBytes({.source = source->ipv6(),
                                          .destination = at.has_value() ? target : group,
                                          .target = target,
                                          .source_link = link_->own()});
  at.has_value() ? link_->SendIpv6(packet, *at) : link_->SendIpv6ToGroup(packet, group);
  return true;
}

bool NdResponder::Probe(const Ipv6Addr& address, const DadNonce& nonce) {
  const Ipv6Addr group = SolicitedNodeGroup(address);
  if (!link_->Reaches(group)) return false;
  link_->SendIpv6ToGroup(
      SolicitationBytes({.source = {}, .destination = group, .target = address, .nonce = nonce}),
      group);
  return true;
}

void NdResponder::Announce(const Ipv6Addr& address) {
  link_->SendIpv6ToGroup(AdvertisementBytes({.source = address,
                                             .destination = kAllNodes,
                                             .target = address,
                                             .router = IsRouter(),
                                             .target_link = link_->own()}),
                         kAllNodes);
}

}  // namespace eoib::endpoint
