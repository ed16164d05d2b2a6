#include "gateway/translation/nd_translation.h"

#include "gateway/link/source_table.h"
#include "gateway/translation/nd_packet.h"

namespace eoib::translation {
namespace {

bool IsSolicitation(const NdMessage& message) {
  return message.type == NdType::kNeighborSolicitation;
}
bool IsAdvertisement(const NdMessage& message) {
  return message.type == NdType::kNeighborAdvertisement;
}
// RFC 4861 §4.3: a solicitation from :: is part of duplicate address detection.
bool IsProbe(const NdMessage& message) {
  return IsSolicitation(message) && message.source.IsUnspecified();
}
bool IsAnswer(const NdMessage& message) {
  return (AdvertisementFlags(message) & kNaSolicited) != 0;
}
bool IsOfRouter(const NdMessage& message) { return (AdvertisementFlags(message) & kNaRouter) != 0; }
bool Overrides(const NdMessage& message) {
  return (AdvertisementFlags(message) & kNaOverride) != 0;
}

bool IsForGroup(const NdMessage& message) { return message.destination.IsMulticast(); }

bool HasSourceAddress(const NdMessage& message) {
  return !message.options.Find(NdOptionType::kSourceLinkAddress).bytes.empty();
}

NdOption SenderAddressIn(const NdMessage& message) {
  return message.options.Find(ipoib::SenderOption(message.type));
}

// RFC 4861 §7.1.1, §7.1.2, §8.1: hosts discard messages that fail these checks, so they do not
// cross. A solicitation from :: must go to a multicast address, without a source option.
bool IsSane(const NdMessage& message) {
  if (message.source.IsMulticast()) return false;
  switch (message.type) {
    case NdType::kNeighborSolicitation:
      return !message.target.IsMulticast() &&
             (!IsProbe(message) || (IsForGroup(message) && !HasSourceAddress(message)));
    case NdType::kNeighborAdvertisement:
      return !message.target.IsMulticast() && !(IsForGroup(message) && IsAnswer(message));
    case NdType::kRouterAdvertisement:
    case NdType::kRedirect:
      return message.source.IsLinkLocal();
    case NdType::kRouterSolicitation:
      return true;
  }
  return false;
}

}  // namespace

Drop NdTranslation::FromEthernet(const EthernetInfo& frame, absl::Span<const uint8_t> packet,
                                 const NdMessage& message) {
  if (!IsSane(message)) return Drop::kMalformed;
  if (frame.destination.IsGroup() && !IsForGroup(message)) return Drop::kGroupMismatch;
  if (const auto own = EthernetLinkAddress(SenderAddressIn(message)); own.has_value()) {
    if (const Drop drop = state_.CheckClaimedMac(*own); drop != Drop::kNone) return drop;
  }
  Learn(frame, message);
  LearnRouter(message);
  const Station* const to =
      frame.destination.IsGroup() ? nullptr : state_.stations.FindByMac(frame.destination);
  if (!frame.destination.IsGroup() && to == nullptr) return Drop::kUnknownStation;
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  const auto to_ipoib = [this](MacAddr mac) { return ToIpoib(mac); };
  const NdMtus mtus{state_.output.ethernet_mtu(), state_.output.ipoib_mtu()};
  if (const Drop drop = TranslateToIpoib(packet, message, mtus, to_ipoib, &out_);
      drop != Drop::kNone)
    return drop;
  if (IsSolicitation(message) && IsForGroup(message)) {
    const Drop drop = state_.MaySolicitIpoib(message.target, frame.source, IsProbe(message));
    if (drop != Drop::kNone) return drop;
  }
  state_.counters.Add(Event::kNd);
  to != nullptr ? state_.output.ToIpoib(IpoibType::kIpv6, out_, to->address())
                : state_.output.ToIpoibGroup(IpoibType::kIpv6, out_, message.destination);
  return Drop::kNone;
}

void NdTranslation::Learn(const EthernetInfo& frame, const NdMessage& message) {
  using Claim = Neighbors::Claim;
  // A host that probes for an address will have it in a second, and then gets solicitations for it.
  if (IsProbe(message)) state_.groups.Report(SolicitedNodeGroup(message.target), true, state_.now);
  if (message.type == NdType::kRouterAdvertisement)
    state_.on_link.LearnAdvertisement(message, state_.now);
  const absl::optional<MacAddr> mac = EthernetLinkAddress(SenderAddressIn(message));
  if (!mac.has_value()) return state_.neighbors.HearFrom(message.source, frame.source, state_.now);
  if (message.type == NdType::kRedirect) return;
  if (!IsAdvertisement(message)) return state_.LearnNeighbor(message.source, *mac, Claim::kHas);
  state_.LearnNeighbor(message.target, *mac,
                       !Overrides(message) ? Claim::kWeak
                       : IsAnswer(message) ? Claim::kAnswer
                                           : Claim::kHas);
}

void NdTranslation::LearnRouter(const NdMessage& message) {
  if (message.type == NdType::kRouterAdvertisement) state_.NoteRouter(message.source, true);
  if (IsAdvertisement(message)) state_.NoteRouter(message.target, IsOfRouter(message));
}

// A redirect may name another IPoIB host: the two then talk directly, without the gateway.
absl::optional<IpoibAddress> NdTranslation::ToIpoib(MacAddr mac) const {
  if (mac.IsBroadcast() || mac.IsZero()) return absl::nullopt;
  const Station* const station = state_.stations.FindByMac(mac);
  return station != nullptr ? station->address() : state_.output.own();
}

Drop NdTranslation::FromIpoib(const ipoib::Packet& packet, const NdMessage& message) {
  if (!IsSane(message)) return Drop::kMalformed;
  IpoibAddress sender;
  if (const Drop drop = Sender(packet, message, &sender); drop != Drop::kNone) return drop;
  const Station* const station = Learn(sender, message);
  LearnRouter(message);
  const MacAddr from = station->mac;
  if (const Drop obstacle = state_.output.Obstacle(); obstacle != Drop::kNone) return obstacle;
  const auto to_ethernet = [&](const IpoibAddress& address) {
    return ToEthernet(message, address);
  };
  const NdMtus mtus{state_.output.ipoib_mtu(), state_.output.ethernet_mtu()};
  if (const Drop drop = TranslateToEthernet(packet.payload, message, mtus, to_ethernet, &out_);
      drop != Drop::kNone)
    return drop;
  if (IsSolicitation(message) && IsForGroup(message)) {
    const Drop drop = state_.MaySolicitEthernet(message.target, from, IsProbe(message));
    if (drop != Drop::kNone) return drop;
  }
  state_.counters.Add(Event::kNd);
  if (!IsForGroup(message))
    return delivery_.ToNeighbor({message.source, message.destination, from, kEtherTypeIpv6}, out_);
  state_.output.ToEthernet(GroupMac(message.destination), from, kEtherTypeIpv6, out_);
  return Drop::kNone;
}

// The sender is at the address in its link-layer address option; else at the datagram's source.
// Linux sends unicast answers without either: then it is the station that has the IP source
// address.
Drop NdTranslation::Sender(const ipoib::Packet& packet, const NdMessage& message,
                           IpoibAddress* sender) const {
  const auto option = IpoibLinkAddress(SenderAddressIn(message));
  const Station* const known = state_.stations.FindByIp(message.source);
  if (option.has_value() && message.type != NdType::kRedirect) {
    *sender = *option;
  } else if (packet.source.has_value()) {
    *sender = *packet.source;
  } else if (known != nullptr) {
    *sender = known->address();
  } else {
    return Drop::kUnknownSource;
  }
  return state_.CheckClaimedSender(*sender, packet.source);
}

const Station* NdTranslation::Learn(const IpoibAddress& sender, const NdMessage& message) {
  using Claim = Stations::Claim;
  const bool has_option = IpoibLinkAddress(SenderAddressIn(message)).has_value();
  if (IsProbe(message)) return state_.LearnStation(sender, message.target, Claim::kProbe);
  if (IsAdvertisement(message) && has_option) {
    const bool moves = Overrides(message) || state_.stations.FindByIp(message.target) == nullptr;
    return state_.LearnStation(sender, message.target,
                               !moves              ? Claim::kProbe
                               : IsAnswer(message) ? Claim::kAnswer
                                                   : Claim::kHas);
  }
  return state_.LearnStation(sender, message.source, has_option ? Claim::kHas : Claim::kProbe);
}

// In a redirect of an IPoIB router, the gateway's own address stands for the Ethernet host that is
// the redirect's target.
absl::optional<MacAddr> NdTranslation::ToEthernet(const NdMessage& message,
                                                  const IpoibAddress& address) const {
  if (address == state_.output.own()) return state_.neighbors.Find(message.target);
  const Station* const station = state_.stations.FindByAddress(address);
  return station != nullptr ? absl::make_optional(station->mac) : absl::nullopt;
}

}  // namespace eoib::translation
