#include "control/ves/local_claims.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace eoib {
namespace {

constexpr absl::Duration kCheckInterval = absl::Seconds(1);

}  // namespace

LocalClaims::LocalClaims(VPortProtocol* protocol, Fdb* fdb, const Clock* clock)
    : protocol_(protocol), fdb_(fdb), clock_(clock), check_at_(clock->Now() + kCheckInterval) {}

void LocalClaims::AddVPort(VPortId vport, uint16_t id, bool sticky,
                           const std::vector<ConfiguredMac>& configured) {
  vports_[vport] = {id, sticky};
  for (const ConfiguredMac& mac : configured) {
    claims_[mac.key] = {vport, true, mac.sticky};
    if (mac.sticky) {
      protocol_->ClaimConfigured(mac.key, id);
      fdb_->Claim(mac.key, vport);
    } else {
      protocol_->Claim(mac.key, id);
    }
  }
}

void LocalClaims::RemoveVPort(VPortId vport) {
  for (const auto& [key, claim] : claims_) {
    if (claim.vport == vport) protocol_->Release(key);
  }
  absl::erase_if(claims_, [vport](const auto& claim) { return claim.second.vport == vport; });
  vports_.erase(vport);
}

void LocalClaims::OnLearned(FdbKey key, VPortId vport, bool moved) {
  Take(key, vport, moved ? 2 : 1);
}

void LocalClaims::OnHeard(FdbKey key, VPortId vport) {
  const auto lost = lost_.find(key);
  if (lost != lost_.end() && clock_->Now() < lost->second + kHoldDown) {
    returned_.try_emplace(key, lost->second + kHoldDown);
    return;
  }
  Take(key, vport);
}

// Claims `key` for the vPort. The FDB keeps what it has if we stopped claiming: two stations have
// this MAC. A vPort that has all the claims that it may have gives one up for a MAC that another
// agent has, because only a claim takes it from there.
void LocalClaims::Take(FdbKey key, VPortId vport, uint32_t least) {
  const auto local = vports_.find(vport);
  if (local == vports_.end()) return;
  const auto known = claims_.find(key);
  const bool configured = known != claims_.end() && known->second.configured;
  if (!configured && local->second.learned >= kMaxLearned && !protocol_->Holder(key)) return;
  const bool sticky = configured ? known->second.sticky : local->second.sticky;
  if (!protocol_->Claim(key, local->second.id, sticky, least)) return;
  fdb_->Claim(key, vport);
  lost_.erase(key);
  if (configured) return;
  if (known != claims_.end()) {
    --vports_.at(known->second.vport).learned;
    claims_.erase(known);
  }
  if (local->second.learned >= kMaxLearned) ReleaseOneOf(vport);
  ++local->second.learned;
  claims_[key] = {vport, false, local->second.sticky};
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
  const auto claim = claims_.find(key);
  if (claim != claims_.end() && !claim->second.sticky) contested_.try_emplace(key, clock_->Now());
}

void LocalClaims::OnLost(FdbKey key) {
  lost_[key] = clock_->Now();
  contested_.erase(key);
  const auto claim = claims_.find(key);
  if (claim == claims_.end() || claim->second.configured) return;
  --vports_.at(claim->second.vport).learned;
  claims_.erase(claim);
}

void LocalClaims::Run(bool takes_unreported) {
  AskAboutReturned();
  JudgeContests();
  const absl::Time now = clock_->Now();
  if (unchecked_.empty()) {
    if (now < check_at_) return;
    check_at_ = now + kCheckInterval;
    absl::erase_if(lost_, [now](const auto& lost) { return now >= lost.second + kHoldDown; });
    held_configured_.clear();
    for (const auto& [key, claim] : claims_) unchecked_.push_back(key);
  }
  for (size_t i = 0; i < kSlice && !unchecked_.empty(); ++i) {
    const FdbKey key = unchecked_.back();
    unchecked_.pop_back();
    Check(key);
  }
  if (unchecked_.empty() && takes_unreported) TakeUnreported();
}

void LocalClaims::Check(FdbKey key) {
  const auto claim = claims_.find(key);
  if (claim == claims_.end()) return;
  const absl::optional<Fdb::Entry> entry = fdb_->Get(key);
  const VPortId vport = claim->second.vport;
  const bool is_here = entry && entry->vport == vport;
  if (!claim->second.configured) {
    if (!is_here) Release(key);
    return;
  }
  if (is_here && entry->origin != FdbOrigin::kStatic) ++held_configured_[vport];
  if (!claim->second.sticky) return;
  // An interface that is silent has its MAC all the same: operators look for it, and frames for it
  // need not flood. Frames that came from elsewhere while its entry had aged out do not keep it
  // there.
  if (!protocol_->own().current().macs.contains(key))
    protocol_->ClaimConfigured(key, vports_.at(vport).id);
  if (!entry || !vports_.contains(entry->vport)) fdb_->Claim(key, vport);
}

// The worker limits its reports. It reports a MAC once, so one that was not told of would stay
// unknown.
void LocalClaims::TakeUnreported() {
  absl::flat_hash_map<VPortId, size_t> room;  // for claims of vPorts that have such MACs
  for (const auto& [vport, local] : vports_) {
    const auto configured = held_configured_.find(vport);
    const size_t claimed =
        local.learned + (configured == held_configured_.end() ? 0 : configured->second);
    if (local.learned < kMaxLearned && fdb_->HeldLearned(vport) > claimed)
      room[vport] = kMaxLearned - local.learned;
  }
  if (room.empty()) return;
  std::vector<std::pair<FdbKey, VPortId>> found;
  fdb_->Visit([&](const Fdb::Entry& entry) {
    const auto at = room.find(entry.vport);
    if (at == room.end() || at->second == 0 || entry.origin == FdbOrigin::kStatic ||
        claims_.contains(entry.key))
      return;
    --at->second;
    found.emplace_back(entry.key, entry.vport);
  });
  for (const auto& [key, vport] : found) {
    if (!protocol_->Holder(key)) Take(key, vport);
  }
}

// Perhaps the frame at our vPort was a stale one, perhaps the station is back and silent again.
void LocalClaims::AskAboutReturned() {
  const absl::Time now = clock_->Now();
  absl::erase_if(returned_, [this, now](const auto& returned) {
    if (now < returned.second) return false;
    if (!claims_.contains(returned.first)) protocol_->Contest(returned.first);
    return true;
  });
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

// The FDB knows when a station was last heard, in ticks of a second. One that was heard in a later
// tick than the contest began is here. To ask for the present tick would be wrong: it may have
// begun a moment ago.
void LocalClaims::JudgeContests() {
  const absl::Time now = clock_->Now();
  const auto tick_at = [seconds = absl::ToInt64Seconds(fdb_->tick())](absl::Time time) {
    return absl::ToUnixSeconds(time) / seconds;
  };
  std::vector<std::pair<FdbKey, int64_t>> due;  // and the ticks since it was contested
  for (const auto& [key, since] : contested_) {
    if (since + kContest <= now)
      due.emplace_back(key, std::max<int64_t>(tick_at(now) - tick_at(since), 1));
  }
  for (const auto& [key, ticks] : due) {
    contested_.erase(key);
    const auto claim = claims_.find(key);
    const absl::optional<Fdb::Entry> entry = fdb_->Get(key);
    if (claim == claims_.end() || !entry || entry->vport != claim->second.vport ||
        entry->age < ticks * fdb_->tick())
      continue;
    const VPortId vport = claim->second.vport;
    Release(key);
    fdb_->FlushMac(key, vport);
  }
}

absl::Time LocalClaims::NextDeadline() const {
  if (!unchecked_.empty()) return absl::InfinitePast();
  absl::Time next = claims_.empty() && lost_.empty() ? absl::InfiniteFuture() : check_at_;
  for (const auto& [key, since] : contested_) next = std::min(next, since + kContest);
  for (const auto& [key, until] : returned_) next = std::min(next, until);
  return next;
}

}  // namespace eoib
