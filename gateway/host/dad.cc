#include "gateway/host/dad.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace eoib::endpoint {

Dad::Dad(const Options& options, const Clock* clock, Random random, Sender* sender, Owner* owner)
    : options_(options),
      clock_(clock),
      random_(std::move(random)),
      sender_(sender),
      owner_(owner) {}

void Dad::Start(const IpAddr& address) { Begin(&(entries_[address] = {})); }
void Dad::Stop(const IpAddr& address) { entries_.erase(address); }

void Dad::Begin(Entry* entry) {
  entry->phase = Phase::kProbing;
  entry->sent = 0;
  entry->timer = link_up_ ? clock_->Now() + UpTo(options_.first_wait) : absl::InfiniteFuture();
}

void Dad::BeginAnnouncing(Entry* entry) {
  entry->phase = Phase::kAnnouncing;
  entry->sent = 0;
  entry->timer = clock_->Now();
}

void Dad::OnLinkUp() {
  link_up_ = true;
  for (auto& [address, entry] : entries_) {
    if (entry.phase == Phase::kProbing) Begin(&entry);
    if (entry.phase == Phase::kAnnouncing || entry.phase == Phase::kAssigned)
      BeginAnnouncing(&entry);
  }
}

void Dad::OnLinkDown() {
  link_up_ = false;
  for (auto& [address, entry] : entries_) entry.timer = absl::InfiniteFuture();
}

void Dad::OnClaim(const IpAddr& address, const absl::optional<IpoibAddress>& rival) {
  const auto found = entries_.find(address);
  if (found == entries_.end() || found->second.phase == Phase::kDuplicate) return;
  if (found->second.phase == Phase::kProbing) return GiveUp(address, rival, &found->second);
  owner_->OnContested(address, rival, Defend(address, &found->second));
}

void Dad::OnProbe(const IpAddr& address, const absl::optional<IpoibAddress>& rival,
                  absl::Span<const uint8_t> nonce) {
  const auto found = entries_.find(address);
  if (found == entries_.end() || found->second.phase != Phase::kProbing) return;
  // RFC 7527 §4.2: our own probe, looped back.
  if (absl::MakeConstSpan(found->second.nonce) == nonce) return;
  GiveUp(address, rival, &found->second);
}

void Dad::GiveUp(const IpAddr& address, const absl::optional<IpoibAddress>& rival, Entry* entry) {
  entry->phase = Phase::kDuplicate;
  entry->timer = absl::InfiniteFuture();
  owner_->OnDuplicate(address, rival);
}

bool Dad::Defend(const IpAddr& address, Entry* entry) {
  if (!link_up_ || entry->defended + options_.defend_interval > clock_->Now()) return false;
  entry->defended = clock_->Now();
  sender_->Announce(address);
  return true;
}

// The owner's callbacks may start and stop addresses, so entries are looked up again one by one.
void Dad::Tick() {
  const absl::Time now = clock_->Now();
  std::vector<IpAddr> due;
  for (const auto& [address, entry] : entries_) {
    if (entry.timer <= now) due.push_back(address);
  }
  for (const IpAddr& address : due) {
    const auto found = entries_.find(address);
    if (found == entries_.end()) continue;
    found->second.phase == Phase::kProbing ? RunProbing(address, &found->second)
                                           : RunAnnouncing(address, &found->second);
  }
}

void Dad::RunProbing(const IpAddr& address, Entry* entry) {
  const bool ipv4 = address.is_ipv4();
  const int probes = ipv4 ? options_.probes4 : options_.probes6;
  if (entry->sent == probes) return OnFree(address, entry);
  entry->nonce = MakeNonce();
  if (!sender_->Probe(address, entry->nonce)) {
    entry->timer = clock_->Now() + options_.retry;
    return;
  }
  ++entry->sent;
  const absl::Duration last_wait = ipv4 ? options_.last_wait4 : options_.last_wait6;
  const absl::Duration interval = options_.probe_interval4 + UpTo(options_.probe_interval4);
  entry->timer = clock_->Now() + (entry->sent == probes ? last_wait : interval);
}

// Announces the address unless the owner stops it, because the kernel refused it.
void Dad::OnFree(const IpAddr& address, Entry* entry) {
  BeginAnnouncing(entry);
  owner_->OnUnique(address);
  const auto found = entries_.find(address);
  if (found != entries_.end() && found->second.phase == Phase::kAnnouncing)
    RunAnnouncing(address, &found->second);
}

void Dad::RunAnnouncing(const IpAddr& address, Entry* entry) {
  ++entry->sent;
  const bool last = entry->sent >= options_.announcements;
  if (last) entry->phase = Phase::kAssigned;
  entry->timer = last ? absl::InfiniteFuture() : clock_->Now() + options_.announce_interval;
  sender_->Announce(address);
}

absl::Time Dad::Next() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [address, entry] : entries_) next = std::min(next, entry.timer);
  return next;
}

absl::Duration Dad::UpTo(absl::Duration longest) {
  return absl::Nanoseconds(random_() %
                           static_cast<uint64_t>(absl::ToInt64Nanoseconds(longest) + 1));
}

DadNonce Dad::MakeNonce() {
  DadNonce nonce;
  const uint64_t number = random_();
  for (size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<uint8_t>(number >> (8 * i));
  return nonce;
}

}  // namespace eoib::endpoint
