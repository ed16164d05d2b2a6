#include "gateway/host/neighbor_cache.h"

#include <algorithm>

#include "gateway/host/neighbor_messages.h"

namespace eoib::endpoint {
const char* ToString(NeighborState state) {
  constexpr const char* kNames[] = {"incomplete", "reachable", "stale", "delay", "probe"};
  return kNames[static_cast<size_t>(state)];
}

NeighborCache::NeighborCache(const Options& options, const Clock* clock, Link* link)
    : options_(options), clock_(clock), link_(link) {}

void NeighborCache::Send(const IpAddr& next_hop, absl::Span<const uint8_t> packet) {
  const auto found = entries_.find(next_hop);
  if (found != entries_.end()) {
    Touch(&found->second);
    return DeliverTo(next_hop, packet, &found->second);
  }
  Entry& entry = Make(next_hop, IpoibAddress());
  Queue(packet, &entry);
  SendSolicitation(next_hop, &entry);
}

// RFC 4861 §7.3.3. No timer makes an entry stale: its age is checked when a packet needs it.
void NeighborCache::DeliverTo(const IpAddr& ip, absl::Span<const uint8_t> packet, Entry* entry) {
  if (entry->state == NeighborState::kIncomplete) return Queue(packet, entry);
  if (IsFresh(*entry)) {
    if (entry->state != NeighborState::kReachable) SetState(ip, NeighborState::kReachable, entry);
  } else if (entry->state == NeighborState::kReachable || entry->state == NeighborState::kStale) {
    SetState(ip, NeighborState::kDelay, entry);
  }
  link_->Deliver(packet, entry->address);
}

void NeighborCache::Queue(absl::Span<const uint8_t> packet, Entry* entry) {
  entry->waiting.emplace_back(packet.begin(), packet.end());
  if (entry->waiting.size() <= options_.queue) return;
  // RFC 4861 §7.2.2: the oldest packet is dropped.
  link_->Displaced(entry->waiting.front());
  entry->waiting.erase(entry->waiting.begin());
}

void NeighborCache::OnHeard(const IpoibAddress& from, const IpAddr& source) {
  const auto owner = owners_.find(from);
  if (owner == owners_.end() || !CanBeInterface(from)) return;
  owner->second.heard = clock_->Now();
  const auto found = entries_.find(source);
  if (found != entries_.end() && found->second.address == from)
    found->second.confirmed = clock_->Now();
}

void NeighborCache::OnSolicitation(const IpAddr& ip, const IpoibAddress& address) {
  if (!CanBeInterface(address)) return;
  const auto found = entries_.find(ip);
  if (found == entries_.end()) {
    Entry& entry = Make(ip, address);
    SetState(ip, NeighborState::kStale, &entry);
  } else if (found->second.address != address) {
    Update(ip, address, NeighborState::kStale, &found->second);
  }
}

// RFC 4861 §7.2.5.
void NeighborCache::OnAdvertisement(const IpAddr& ip, const absl::optional<IpoibAddress>& address,
                                    bool solicited, bool overrides) {
  const auto found = entries_.find(ip);
  if (found == entries_.end() || (address.has_value() && !CanBeInterface(*address))) return;
  Entry& entry = found->second;
  const bool incomplete = entry.state == NeighborState::kIncomplete;
  if (incomplete && !address.has_value()) return;
  const bool differs = address.has_value() && *address != entry.address;
  if (differs && !incomplete && !overrides) {
    if (entry.state == NeighborState::kReachable) SetState(ip, NeighborState::kStale, &entry);
    return;
  }
  if (solicited) entry.confirmed = clock_->Now();
  if (differs)
    return Update(ip, *address, solicited ? NeighborState::kReachable : NeighborState::kStale,
                  &entry);
  if (solicited) SetState(ip, NeighborState::kReachable, &entry);
}

// A confirmation of the former address does not hold for the new one; a solicited answer
// (kReachable) has just confirmed that.
void NeighborCache::Update(const IpAddr& ip, const IpoibAddress& address, NeighborState state,
                           Entry* entry) {
  if (state != NeighborState::kReachable) entry->confirmed = absl::InfinitePast();
  if (entry->address != address) {
    Leave(entry);
    Join(ip, address, entry);
  }
  SetState(ip, state, entry);
  const std::vector<Packet> waiting = std::exchange(entry->waiting, {});
  for (const Packet& packet : waiting) DeliverTo(ip, packet, entry);
}

void NeighborCache::Tick() {
  const absl::Time now = clock_->Now();
  while (!timers_.empty() && timers_.begin()->first <= now)
    RunTimer(IpAddr(timers_.begin()->second));
}

void NeighborCache::RunTimer(const IpAddr& ip) {
  const auto found = entries_.find(ip);
  Entry& entry = found->second;
  switch (entry.state) {
    case NeighborState::kIncomplete:
      return Retransmit(found);
    case NeighborState::kDelay:
    case NeighborState::kProbe:
      if (IsFresh(entry)) return SetState(ip, NeighborState::kReachable, &entry);
      return Retransmit(found);
    case NeighborState::kReachable:
    case NeighborState::kStale:
      if (entry.used + options_.idle <= clock_->Now()) return Remove(found);
      return SetTimer(ip, entry.used + options_.idle, &entry);
  }
}

void NeighborCache::Retransmit(Entries::iterator found) {
  Entry& entry = found->second;
  if (entry.solicits >= options_.max_solicits) return GiveUp(found);
  if (entry.state == NeighborState::kDelay) entry.state = NeighborState::kProbe;
  SendSolicitation(found->first, &entry);
}

void NeighborCache::SendSolicitation(const IpAddr& ip, Entry* entry) {
  const bool first_probe = entry->state == NeighborState::kProbe && entry->solicits == 0;
  ++entry->solicits;
  SetTimer(ip, clock_->Now() + options_.retransmit, entry);
  link_->Solicit(ip, first_probe ? absl::optional<IpoibAddress>(entry->address) : absl::nullopt);
}

void NeighborCache::GiveUp(Entries::iterator found) {
  const IpAddr ip = found->first;
  const std::vector<Packet> waiting = std::move(found->second.waiting);
  found->second.waiting.clear();
  Remove(found);
  for (const Packet& packet : waiting) link_->Unreachable(ip, packet);
}

NeighborCache::Entry& NeighborCache::Make(const IpAddr& ip, const IpoibAddress& owner) {
  if (entries_.size() >= options_.limit) RemoveWaste();
  Entry& entry = entries_[ip];
  Join(ip, owner, &entry);
  entry.used = clock_->Now();
  return entry;
}

void NeighborCache::RemoveWaste() {
  const absl::optional<uint32_t> largest = ranking_.Largest();
  if (!largest.has_value()) return;
  Remove(entries_.find(owners_.find(ranked_[*largest])->second.entries.front()));
}

void NeighborCache::Remove(Entries::iterator found) {
  for (const Packet& packet : found->second.waiting) link_->Displaced(packet);
  timers_.erase({found->second.timer, found->first});
  Leave(&found->second);
  entries_.erase(found);
}

void NeighborCache::Join(const IpAddr& ip, const IpoibAddress& address, Entry* entry) {
  const auto [at, is_new] = owners_.try_emplace(address);
  Owner& owner = at->second;
  if (is_new && !free_ranks_.empty()) {
    owner.rank = free_ranks_.back();
    free_ranks_.pop_back();
    ranked_[owner.rank] = address;
  } else if (is_new) {
    owner.rank = static_cast<uint32_t>(ranked_.size());
    ranked_.push_back(address);
  }
  // A message from this owner has just made the entry; for the zero address the time has no
  // meaning.
  owner.heard = clock_->Now();
  entry->address = address;
  entry->place = owner.entries.insert(owner.entries.end(), ip);
  ranking_.Set(owner.rank, owner.entries.size());
}

void NeighborCache::Leave(Entry* entry) {
  const auto at = owners_.find(entry->address);
  Owner& owner = at->second;
  owner.entries.erase(entry->place);
  ranking_.Set(owner.rank, owner.entries.size());
  if (!owner.entries.empty()) return;
  free_ranks_.push_back(owner.rank);
  owners_.erase(at);
}

void NeighborCache::Touch(Entry* entry) {
  entry->used = clock_->Now();
  std::list<IpAddr>& entries = owners_.find(entry->address)->second.entries;
  entries.splice(entries.end(), entries, entry->place);
}

bool NeighborCache::IsFresh(const Entry& entry) const {
  const absl::Time now = clock_->Now();
  const bool vouched = entry.confirmed + options_.vouched > now;
  const absl::Time heard =
      vouched ? owners_.find(entry.address)->second.heard : absl::InfinitePast();
  return std::max(entry.confirmed, heard) + options_.reachable > now;
}

void NeighborCache::SetState(const IpAddr& ip, NeighborState state, Entry* entry) {
  entry->state = state;
  entry->solicits = 0;
  SetTimer(
      ip,
      state == NeighborState::kDelay ? clock_->Now() + options_.delay : entry->used + options_.idle,
      entry);
}

void NeighborCache::SetTimer(const IpAddr& ip, absl::Time when, Entry* entry) {
  timers_.erase({entry->timer, ip});
  entry->timer = when;
  timers_.insert({when, ip});
}

void NeighborCache::Clear() {
  while (!entries_.empty()) Remove(entries_.begin());
}

size_t NeighborCache::waiting() const {
  size_t waiting = 0;
  for (const auto& [ip, entry] : entries_) waiting += entry.waiting.size();
  return waiting;
}

NeighborCache::Neighbor NeighborCache::Describe(const IpAddr& ip, const Entry& entry) const {
  Neighbor neighbor{ip, absl::nullopt, entry.state, absl::InfiniteDuration(), entry.waiting.size()};
  if (entry.state == NeighborState::kIncomplete) return neighbor;
  neighbor.address = entry.address;
  neighbor.heard =
      clock_->Now() - std::max(entry.confirmed, owners_.find(entry.address)->second.heard);
  // DeliverTo updates the state only when a packet is sent, so show an old entry as stale.
  if (entry.state == NeighborState::kReachable && !IsFresh(entry))
    neighbor.state = NeighborState::kStale;
  return neighbor;
}

std::vector<NeighborCache::Neighbor> NeighborCache::All() const {
  std::vector<Neighbor> all;
  all.reserve(entries_.size());
  for (const auto& [ip, entry] : entries_) all.push_back(Describe(ip, entry));
  std::sort(all.begin(), all.end(),
            [](const Neighbor& a, const Neighbor& b) { return a.ip < b.ip; });
  return all;
}

}  // namespace eoib::endpoint
