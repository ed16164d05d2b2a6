#include "control/local_claims.h"

#include <algorithm>

namespace eoib {
namespace {

constexpr absl::Duration kCheckInterval = absl::Seconds(1);

}  // namespace

LocalClaims::LocalClaims(VPortProtocol* protocol, Fdb* fdb, const Clock* clock)
    : protocol_(protocol), fdb_(fdb), clock_(clock), check_at_(clock->Now() + kCheckInterval) {}

void LocalClaims::AddVPort(VPortId vport, uint16_t id, bool sticky, const std::vector<ConfiguredMac>& configured) {
  vports_[vport] = {id, sticky};
  for (const ConfiguredMac& mac : configured) {
    claims_[mac.key] = {vport, true};
    protocol_->Claim(mac.key, id, mac.sticky);
  }
}

void LocalClaims::OnLearned(FdbKey key, VPortId vport, bool moved) { Take(key, vport, moved ? 2 : 1); }

void LocalClaims::OnHeard(FdbKey key, VPortId vport) {
  const auto lost = lost_.find(key);
  if (lost != lost_.end() && clock_->Now() < lost->second + kHoldDown) return;
  Take(key, vport);
}

// Claims `key` for the vPort. The FDB keeps what it has if we stopped claiming: two stations have this MAC. A vPort that has
// all the claims that it may have gives one up for a MAC that another agent has, because only a claim takes it from there.
void LocalClaims::Take(FdbKey key, VPortId vport, uint32_t least) {
  const auto local = vports_.find(vport);
  if (local == vports_.end()) return;
  if (local->second.learned >= kMaxLearned && !protocol_->Holder(key)) return;
  if (!protocol_->Claim(key, local->second.id, local->second.sticky, least)) return;
  fdb_->Claim(key, vport);
  lost_.erase(key);
  const auto known = claims_.find(key);
  if (known != claims_.end()) {
    if (known->second.configured) return;
    --vports_.at(known->second.vport).learned;
    claims_.erase(known);
  }
  if (local->second.learned >= kMaxLearned) ReleaseOneOf(vport);
  ++local->second.learned;
  claims_[key] = {vport, false};
}

void LocalClaims::Release(FdbKey key) {
  const auto claim = claims_.find(key);
  if (claim == claims_.end()) return;
  if (!claim->second.configured) {
    --vports_.at(claim->second.vport).learned;
    claims_.erase(claim);
  }
  protocol_->Release(key);
}

void LocalClaims::ReleaseOneOf(VPortId vport) {
  const auto one = std::find_if(claims_.begin(), claims_.end(), [vport](const auto& claim) {
    return claim.second.vport == vport && !claim.second.configured;
  });
  if (one != claims_.end()) Release(FdbKey(one->first));
}

void LocalClaims::OnContested(FdbKey key) {
  if (claims_.contains(key)) contested_.try_emplace(key, clock_->Now());
}

void LocalClaims::OnLost(FdbKey key) {
  lost_[key] = clock_->Now();
  contested_.erase(key);
  const auto claim = claims_.find(key);
  if (claim == claims_.end() || claim->second.configured) return;
  --vports_.at(claim->second.vport).learned;
  claims_.erase(claim);
}

void LocalClaims::Run() {
  JudgeContests();
  const absl::Time now = clock_->Now();
  if (now < check_at_) return;
  check_at_ = now + kCheckInterval;
  absl::erase_if(lost_, [now](const auto& lost) { return now >= lost.second + kHoldDown; });
  ReleaseGone();
}

// A learned MAC leaves with its entry: it aged out, was flushed or evicted, or moved away.
void LocalClaims::ReleaseGone() {
  std::vector<FdbKey> keys;
  for (const auto& [key, claim] : claims_) {
    if (!claim.configured) keys.push_back(key);
  }
  std::vector<VPortId> found(keys.size(), VPortId::None());
  fdb_->Find(keys, absl::MakeSpan(found));
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] != claims_.at(keys[i]).vport) Release(keys[i]);
  }
}

// The FDB knows when a station was last heard, in ticks of a second.
void LocalClaims::JudgeContests() {
  const absl::Time now = clock_->Now();
  std::vector<FdbKey> due;
  for (const auto& [key, since] : contested_) {
    if (since + kContest <= now) due.push_back(key);
  }
  for (const FdbKey key : due) {
    contested_.erase(key);
    const auto claim = claims_.find(key);
    const absl::optional<Fdb::Entry> entry = fdb_->Get(key);
    if (claim == claims_.end() || !entry || entry->vport != claim->second.vport || entry->age < fdb_->tick()) continue;
    const VPortId vport = claim->second.vport;
    Release(key);
    fdb_->FlushMac(key, vport);
  }
}

absl::Time LocalClaims::NextDeadline() const {
  absl::Time next = claims_.empty() && lost_.empty() ? absl::InfiniteFuture() : check_at_;
  for (const auto& [key, since] : contested_) next = std::min(next, since + kContest);
  return next;
}

}  // namespace eoib
