#include "gateway/host/ip_host.h"

#include <algorithm>
#include <set>
#include <utility>

#include "vswitch/wire/ip/dhcp4.h"
#include "vswitch/wire/ip/group_report.h"
#include "vswitch/wire/ip/icmp_error.h"

namespace eoib::endpoint {
namespace {

uint8_t VersionOf(absl::Span<const uint8_t> packet) { return packet.empty() ? 0 : packet[0] >> 4; }

// The source of an ICMP error is the packet's destination: the kernel would drop a packet from
// outside whose source is its own address.
absl::Span<const uint8_t> UnreachableError(absl::Span<const uint8_t> packet,
                                           IcmpErrorBuffer* buffer) {
  if (const auto ipv4 = ParseIpv4Packet(packet))
    return BuildHostUnreachable(*ipv4, ipv4->destination, buffer);
  if (const auto ipv6 = ParseIpv6Packet(packet))
    return BuildAddressUnreachable(*ipv6, ipv6->destination, buffer);
  return {};
}

absl::Span<const uint8_t> TooLargeError(absl::Span<const uint8_t> packet, size_t mtu,
                                        IcmpErrorBuffer* buffer) {
  if (const auto ipv4 = ParseIpv4Packet(packet))
    return BuildFragmentationNeeded(*ipv4, mtu, ipv4->destination, buffer);
  if (const auto ipv6 = ParseIpv6Packet(packet))
    return BuildPacketTooBig(*ipv6, mtu, ipv6->destination, buffer);
  return {};
}

}  // namespace

IpHost::IpHost(const Options& options, const Context& context)
    : options_(options),
      link_(context.link),
      tun_(context.tun),
      routes_(context.routes),
      sender_(context.link),
      addresses_(context.addresses),
      dad_(options.dad, context.clock, context.random, this, &addresses_),
      neighbors_(options.neighbors, context.clock, this),
      arp_(&sender_, &addresses_, &neighbors_, &dad_),
      nd_(&sender_, &addresses_, &memberships_, &neighbors_, &dad_),
      memberships_(context.link) {
  addresses_.Connect(&dad_);
  addresses_.OnChange([this](const IpAddr&) { OnAddressChange(); });
}

// ---- From the TUN.

void IpHost::FromTun(absl::Span<const uint8_t> packet) {
  ++counters_.from_tun;
  if (!state_.has_value()) return Drop(EndpointDrop::kLinkDown);
  if (VersionOf(packet) == 4) return Ipv4FromTun(packet);
  if (VersionOf(packet) == 6) return Ipv6FromTun(packet);
  Drop(EndpointDrop::kNotIp);
}

void IpHost::SuperFrameFromTun(absl::FunctionRef<absl::Span<const uint8_t>()> next) {
  sent_to_.reset();
  FromTun(next());
  for (absl::Span<const uint8_t> packet = next(); !packet.empty(); packet = next()) {
    if (!sent_to_.has_value()) {
      FromTun(packet);
      continue;
    }
    ++counters_.from_tun;
    Deliver(packet, *sent_to_);
  }
}

void IpHost::Ipv4FromTun(absl::Span<const uint8_t> bytes) {
  const auto packet = ParseIpv4Packet(bytes);
  if (!packet.has_value()) return Drop(EndpointDrop::kNotIp);
  if (!MaySend(IpAddr(packet->source), packet->bytes)) return;
  const Ipv4Addr destination = packet->destination;
  if (destination.IsMulticast()) {
    IgmpMessage message;
    if (ParseGroupMessage(*packet, &message) == GroupVerdict::kReport) on_group_report_();
    return ToGroup(IpoibType::kIpv4, packet->bytes, GroupOf(state_->link, destination),
                   IsBeyondLink(IpAddr(destination)));
  }
  if (destination.IsBroadcast() || addresses_.IsSubnetBroadcast(destination)) {
    return ToGroup(IpoibType::kIpv4, packet->bytes, BroadcastGroup(state_->link),
                   /*beyond_link=*/false);
  }
  ToHost(IpAddr(destination), packet->bytes);
}

void IpHost::Ipv6FromTun(absl::Span<const uint8_t> bytes) {
  const auto packet = ParseIpv6Packet(bytes);
  if (!packet.has_value()) return Drop(EndpointDrop::kNotIp);
  if (!MaySend(IpAddr(packet->source), packet->bytes)) return;
  NdMessage message;
  if (ParseNeighborDiscovery(packet->bytes, &message) == NdVerdict::kGood &&
      (message.type == NdType::kNeighborSolicitation ||
       message.type == NdType::kNeighborAdvertisement)) {
    return Drop(EndpointDrop::kKernelDiscovery);
  }
  if (!packet->destination.IsMulticast()) return ToHost(IpAddr(packet->destination), packet->bytes);
  if (!IsBeyondHost(packet->destination)) return Drop(EndpointDrop::kHostDestination);
  MldMessage report;
  if (ParseGroupMessage(*packet, &report) == GroupVerdict::kReport) on_group_report_();
  ToGroup(IpoibType::kIpv6, packet->bytes, GroupOf(state_->link, packet->destination),
          IsBeyondLink(IpAddr(packet->destination)));
}

bool IpHost::MaySend(const IpAddr& source, absl::Span<const uint8_t> bytes) {
  if (addresses_.IsTentative(source)) {
    Drop(EndpointDrop::kTentativeSource);
    return false;
  }
  if (bytes.size() <= state_->mtu) return true;
  // The kernel knows the TUN's MTU, but packets in the TUN's queue may be older than a change of
  // it.
  Drop(EndpointDrop::kTooLarge);
  IcmpErrorBuffer buffer;
  ErrorToTun(TooLargeError(bytes, state_->mtu, &buffer));
  return false;
}

void IpHost::ToGroup(IpoibType type, absl::Span<const uint8_t> bytes,
                     const absl::optional<IpoibGroup>& group, bool beyond_link) {
  if (!group.has_value()) return Drop(EndpointDrop::kHostDestination);
  ++counters_.to_link;
  link_->SendToGroup(type, bytes, *group, beyond_link);
}

void IpHost::ToHost(const IpAddr& destination, absl::Span<const uint8_t> bytes) {
  const absl::optional<IpAddr> next_hop = routes_->NextHop(destination);
  if (!next_hop.has_value()) return Drop(EndpointDrop::kNoRoute);
  neighbors_.Send(*next_hop, bytes);
}

// ---- From the link.

// A segment that continues the last packet for the TUN, from the same sender, takes its way: the
// host decides by what they have in common.
void IpHost::OnPacket(const ipoib::Packet& packet) {
  ++counters_.from_link;
  const bool same_sender =
      !packet.group && packet.source.has_value() && packet.source == batch_sender_;
  if (same_sender && tun_->Continue(packet.payload, packet.checksums_ok)) {
    ++counters_.to_tun;
    return;
  }
  switch (packet.type) {
    case IpoibType::kArp:
      return ArpFromLink(packet);
    case IpoibType::kRarp:
      return Drop(EndpointDrop::kRarp);
    case IpoibType::kIpv4:
      return Ipv4FromLink(packet);
    case IpoibType::kIpv6:
      return Ipv6FromLink(packet);
  }
}

void IpHost::ArpFromLink(const ipoib::Packet& packet) {
  const auto arp = ParseIpoibArp(packet.payload);
  // A sender hardware address that is a group's or zero would poison the cache.
  if (!arp.has_value() || !CanBeInterface(arp->sender)) return Drop(EndpointDrop::kArpMalformed);
  ++counters_.arp_received;
  ++counters_.consumed;
  Heard(packet, IpAddr(arp->sender_ip));
  arp_.OnArp(*arp);
}

void IpHost::Ipv4FromLink(const ipoib::Packet& packet) {
  const auto ipv4 = ParseIpv4Packet(packet.payload);
  if (!ipv4.has_value()) return Drop(EndpointDrop::kIpMalformed);
  Heard(packet, IpAddr(ipv4->source));
  const Ipv4Addr to = ipv4->destination;
  const bool for_all = to.IsMulticast() || to.IsBroadcast() || addresses_.IsSubnetBroadcast(to);
  if (interceptor_ && interceptor_(*ipv4)) {
    ++counters_.consumed;
    return;
  }
  if (packet.group && !for_all) return Drop(EndpointDrop::kGroupUnicast);
  if (options_.dhcp_server) AskForBroadcast(packet.payload.first(ipv4->bytes.size()));
  ToTunInBatch(packet, ipv4->bytes);
}

void IpHost::Ipv6FromLink(const ipoib::Packet& packet) {
  const auto ipv6 = ParseIpv6Packet(packet.payload);
  if (!ipv6.has_value()) return Drop(EndpointDrop::kIpMalformed);
  Heard(packet, IpAddr(ipv6->source));
  NdMessage message;
  switch (ParseNeighborDiscovery(ipv6->bytes, &message)) {
    case NdVerdict::kGood:
      return DiscoveryFromLink(packet, message);
    case NdVerdict::kBad:
      return Drop(EndpointDrop::kNdMalformed);
    case NdVerdict::kOther:
      break;
  }
  if (packet.group && !ipv6->destination.IsMulticast()) return Drop(EndpointDrop::kGroupUnicast);
  ToTunInBatch(packet, ipv6->bytes);
}

void IpHost::DiscoveryFromLink(const ipoib::Packet& packet, const NdMessage& message) {
  ++counters_.nd_received;
  switch (nd_.OnMessage(message, packet.source)) {
    case NdResponder::Outcome::kDone:
      ++counters_.consumed;
      return;
    case NdResponder::Outcome::kInvalid:
      return Drop(EndpointDrop::kNdMalformed);
    case NdResponder::Outcome::kForKernel:
      return ToTun(WithoutLinkAddresses(packet.payload, message));
  }
}

void IpHost::Heard(const ipoib::Packet& packet, const IpAddr& source) {
  if (packet.source.has_value()) neighbors_.OnHeard(*packet.source, source);
}

void IpHost::OnBatchEnd() {
  EndpointDrop reason;
  const size_t lost = tun_->Flush(&reason);
  if (lost == 0) return;
  counters_.to_tun -= lost;
  counters_.drops.Add(reason, lost);
}

void IpHost::ToTunInBatch(const ipoib::Packet& from, absl::Span<const uint8_t> packet) {
  batch_sender_ = from.group ? absl::nullopt : from.source;
  CountToTun(tun_->WriteInBatch(packet));
}

void IpHost::CountToTun(EndpointDrop drop) {
  if (drop != EndpointDrop::kNone) return Drop(drop);
  ++counters_.to_tun;
}

// An empty `error` means that the packet must not cause one (RFC 1122 §3.2.2).
void IpHost::ErrorToTun(absl::Span<const uint8_t> error) {
  if (error.empty()) return;
  ++counters_.errors;
  ToTun(error);
}

// ---- Callbacks of the neighbour cache and Dad.

void IpHost::Solicit(const IpAddr& target, const absl::optional<IpoibAddress>& at) {
  const bool sent =
      target.is_ipv4() ? arp_.Request(target.ipv4(), at) : nd_.Solicit(target.ipv6(), at);
  if (sent) ++counters_.questions;
}

void IpHost::Deliver(absl::Span<const uint8_t> packet, const IpoibAddress& to) {
  ++counters_.to_link;
  sent_to_ = to;
  link_->Send(VersionOf(packet) == 4 ? IpoibType::kIpv4 : IpoibType::kIpv6, packet, to);
}

// RFC 1122 §2.3.2.2, §3.3.2; RFC 4861 §7.2.2.
void IpHost::Unreachable(const IpAddr&, absl::Span<const uint8_t> packet) {
  Drop(EndpointDrop::kUnreachable);
  IcmpErrorBuffer buffer;
  ErrorToTun(UnreachableError(packet, &buffer));
}

void IpHost::Displaced(absl::Span<const uint8_t>) { Drop(EndpointDrop::kDisplaced); }

bool IpHost::Probe(const IpAddr& address, const DadNonce& nonce) {
  if (address.is_ipv4()) return arp_.Probe(address.ipv4());
  return nd_.Probe(address.ipv6(), nonce);
}

void IpHost::Announce(const IpAddr& address) {
  if (address.is_ipv4()) return arp_.Announce(address.ipv4());
  nd_.Announce(address.ipv6());
}

// ---- Time, and the link.

void IpHost::Tick() {
  dad_.Tick();
  neighbors_.Tick();
}

absl::Time IpHost::Next() const { return std::min(dad_.Next(), neighbors_.Next()); }

void IpHost::OnLinkState() {
  const auto before = std::exchange(state_, link_->state());
  tun_->SetLink(state_.has_value() ? state_->mtu : 0);
  if (state_.has_value()) {
    // Another P_Key or scope is another link, with other neighbours.
    if (before.has_value() && !(before->link == state_->link)) neighbors_.Clear();
    memberships_.OnLinkState();
    dad_.OnLinkUp();
    addresses_.OnLinkUp();
    if (options_.link_local) MakeLinkLocal();
  } else {
    dad_.OnLinkDown();
  }
  if (on_link_change_) on_link_change_();
}

// The link-local address depends on the port's GUID, not on the queue pair.
void IpHost::MakeLinkLocal() {
  const IpAddr link_local(Ipv6Addr::LinkLocal(ToInterfaceId(state_->own.gid().guid())));
  if (link_local_ == link_local) return;
  if (link_local_.has_value()) addresses_.Release(*link_local_);
  link_local_ = link_local;
  addresses_.Want({link_local, 64}, AddressOrigin::kLinkLocal);
}

void IpHost::OnAddressChange() {
  std::set<Ipv6Addr> ipv6;
  for (const auto& [address, item] : addresses_.items()) {
    const bool ours =
        item.state == AddressState::kTentative || item.state == AddressState::kAssigned;
    if (ours && !address.is_ipv4()) ipv6.insert(address.ipv6());
  }
  memberships_.SetAddresses(ipv6);
}

}  // namespace eoib::endpoint
