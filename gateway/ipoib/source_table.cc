#include "gateway/ipoib/source_table.h"

#include "vswitch/wire/arp.h"
#include "vswitch/wire/neighbor_discovery.h"

namespace eoib::ipoib {
namespace {

// RFC 4861 §4.4: an advertisement tells its target's address, which is the sender's own unless it is a proxy's.
NdOptionType SenderOption(NdType type) {
  return type == NdType::kNeighborAdvertisement ? NdOptionType::kTargetLinkAddress : NdOptionType::kSourceLinkAddress;
}

absl::optional<IpoibAddress> SenderOfNd(absl::Span<const uint8_t> packet) {
  NdMessage message;
  if (ParseNeighborDiscovery(packet, &message) != NdVerdict::kGood) return absl::nullopt;
  for (const NdOption& option : message.options) {
    if (option.type == SenderOption(message.type)) return IpoibLinkAddress(option);
  }
  return absl::nullopt;
}

}  // namespace

absl::optional<IpoibAddress> SenderOf(IpoibType type, absl::Span<const uint8_t> packet) {
  if (type == IpoibType::kIpv4) return absl::nullopt;
  if (type == IpoibType::kIpv6) return SenderOfNd(packet);
  const absl::optional<IpoibArp> arp = ParseIpoibArp(packet);
  return arp.has_value() ? absl::optional<IpoibAddress>(arp->sender) : absl::nullopt;
}

bool SourceTable::Learn(Lid lid, Qpn qpn, const IpoibAddress& address) {
  if (address.qpn() != qpn || address.gid().IsZero() || address.IsGroup()) return false;
  Insert({lid, qpn}, address);
  return true;
}

absl::optional<IpoibAddress> SourceTable::Find(Lid lid, Qpn qpn) {
  const Key key(lid, qpn);
  if (const auto found = young_.find(key); found != young_.end()) return found->second;
  const auto found = old_.find(key);
  if (found == old_.end()) return absl::nullopt;
  const IpoibAddress address = found->second;
  Insert(key, address);
  return address;
}

void SourceTable::Insert(const Key& key, const IpoibAddress& address) {
  if (young_.size() >= limit_ && !young_.contains(key)) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_[key] = address;
}

void SourceTable::Clear() {
  young_.clear();
  old_.clear();
}

}  // namespace eoib::ipoib
