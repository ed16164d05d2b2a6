#include "gateway/link/source_table.h"

#include "vswitch/wire/ip/arp.h"

namespace eoib::ipoib {

absl::optional<IpoibAddress> SenderOf(IpoibType type, absl::Span<const uint8_t> packet) {
  if (type == IpoibType::kIpv4) return absl::nullopt;
  if (type == IpoibType::kIpv6) {
    NdMessage message;
    if (ParseNeighborDiscovery(packet, &message) != NdVerdict::kGood) return absl::nullopt;
    return IpoibLinkAddress(message.options.Find(SenderOption(message.type)));
  }
  const absl::optional<IpoibArp> arp = ParseIpoibArp(packet);
  return arp.has_value() ? absl::optional<IpoibAddress>(arp->sender) : absl::nullopt;
}

SourceTable::SourceTable(const Clock* clock, size_t limit)
    : clock_(clock), limit_(limit), new_claims_(kNewPerSecond, kNewAtOnce, clock->Now()) {}

void SourceTable::Learn(Lid lid, const IpoibAddress& address) {
  Insert({lid, address.qpn()}, {address, true, clock_->Now()});
}

bool SourceTable::LearnClaim(Lid lid, Qpn qpn, const IpoibAddress& address) {
  if (address.qpn() != qpn || address.gid().IsZero() || address.IsGroup()) return false;
  const absl::optional<Source> known = Find(lid, qpn);
  if (known.has_value() && known->address == address) return true;
  const absl::Time now = clock_->Now();
  if (known.has_value() && now - known->since < kClaimHold) return false;
  if (!new_claims_.Take(now)) return false;
  Insert({lid, qpn}, {address, false, now});
  return true;
}

absl::optional<SourceTable::Source> SourceTable::Find(Lid lid, Qpn qpn) {
  const Key key(lid, qpn);
  if (const auto found = young_.find(key); found != young_.end()) return found->second;
  const auto found = old_.find(key);
  if (found == old_.end()) return absl::nullopt;
  const Source source = found->second;
  Insert(key, source);
  return source;
}

void SourceTable::Insert(const Key& key, const Source& source) {
  if (young_.size() >= limit_ && !young_.contains(key)) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_[key] = source;
}

void SourceTable::Clear() {
  young_.clear();
  old_.clear();
}

}  // namespace eoib::ipoib
