#include "gateway/translation/neighbors.h"

#include <algorithm>

namespace eoib::translation {

Neighbors::Neighbors(const Options& options, Counters* counters, Observer* observer)
    : options_(options),
      counters_(counters),
      observer_(observer),
      neighbors_(options.max_neighbors) {}

void Neighbors::Change(const Options& options) {
  options_ = options;
  neighbors_.SetLimit(options.max_neighbors);
  while (neighbors_.overfull()) Evict();
}

// Requires a full table.
void Neighbors::Evict() {
  Forget(IpAddr(neighbors_.Victim()->key));
  counters_->Add(Event::kEvicted);
}

absl::optional<MacAddr> Neighbors::Find(const IpAddr& ip) const {
  const auto* const entry = neighbors_.Find(ip);
  return entry == nullptr ? absl::nullopt : absl::make_optional(entry->value);
}

absl::Time Neighbors::Heard(const IpAddr& ip) const {
  const auto* const entry = neighbors_.Find(ip);
  return entry == nullptr ? absl::InfinitePast() : entry->heard;
}

void Neighbors::Learn(const IpAddr& ip, MacAddr mac, Claim claim, absl::Time now) {
  auto* const known = neighbors_.Find(ip);
  if (known == nullptr) {
    Add(ip, mac, now);
  } else if (known->value != mac) {
    if (claim == Claim::kWeak) return;
    Move(&known->value, mac);
  }
  claim == Claim::kAnswer ? neighbors_.Confirm(ip, now) : neighbors_.Hear(ip, now);
}

void Neighbors::HearFrom(const IpAddr& ip, MacAddr mac, absl::Time now) {
  const auto* const known = neighbors_.Find(ip);
  if (known != nullptr && known->value == mac) neighbors_.Confirm(ip, now);
}

void Neighbors::ForgetMac(MacAddr mac) {
  if (HasMac(mac)) ForgetIf([mac](const IpAddr&, MacAddr its) { return its == mac; });
}

void Neighbors::ForgetIf(absl::FunctionRef<bool(const IpAddr&, MacAddr)> goes) {
  std::vector<IpAddr> gone;
  neighbors_.ForEach([&](const auto& entry) {
    if (goes(entry.key, entry.value)) gone.push_back(entry.key);
  });
  for (const IpAddr& ip : gone) Forget(ip);
}

void Neighbors::Expire(absl::Time now) {
  while (const auto* const old = neighbors_.SilentSince(now - options_.ip_age))
    Forget(IpAddr(old->key));
}

void Neighbors::ForEach(
    absl::FunctionRef<void(const IpAddr&, MacAddr, absl::Time, bool)> visit) const {
  neighbors_.ForEach(
      [&](const auto& entry) { visit(entry.key, entry.value, entry.heard, entry.confirmed); });
}

std::vector<SavedNeighbor> Neighbors::Save(absl::Time now) const {
  std::vector<SavedNeighbor> saved;
  ForEach([&](const IpAddr& ip, MacAddr mac, absl::Time heard, bool confirmed) {
    saved.push_back({{ip, now - heard, confirmed}, mac});
  });
  return saved;
}

void Neighbors::Restore(const std::vector<SavedNeighbor>& saved, absl::Time now) {
  // An AgedTable takes entries in the order in which they were heard; Save writes the last heard
  // first.
  std::vector<const SavedNeighbor*> oldest_first;
  for (auto neighbor = saved.rbegin(); neighbor != saved.rend(); ++neighbor)
    oldest_first.push_back(&*neighbor);
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](auto* a, auto* b) { return a->ip.age > b->ip.age; });
  for (const SavedNeighbor* const from : oldest_first) {
    if (neighbors_.Find(from->ip.ip) != nullptr || !from->ip.ip.CanBeHost() ||
        from->mac.IsBroadcast())
      continue;
    Add(from->ip.ip, from->mac, now - from->ip.age);
    if (from->ip.confirmed) neighbors_.Confirm(from->ip.ip, now - from->ip.age);
  }
}

void Neighbors::Add(const IpAddr& ip, MacAddr mac, absl::Time now) {
  if (neighbors_.full()) Evict();
  ++per_mac_[mac];
  ++changes_;
  neighbors_.Add(ip, mac, now);
  counters_->Add(Event::kLearnedNeighbors);
  observer_->OnNeighbor(ip);
}

void Neighbors::Move(MacAddr* from, MacAddr to) {
  Release(*from);
  ++per_mac_[to];
  *from = to;
  ++changes_;
  counters_->Add(Event::kMovedNeighbors);
}

void Neighbors::Forget(const IpAddr& ip) {
  Release(neighbors_.Find(ip)->value);
  neighbors_.Erase(ip);
  ++changes_;
  observer_->OnNeighborGone(ip);
}

void Neighbors::Release(MacAddr mac) {
  if (--per_mac_[mac] == 0) per_mac_.erase(mac);
}

}  // namespace eoib::translation
