#include "fdb/move_damper.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace eoib {

std::unique_ptr<MoveDamper::Set>& MoveDamper::SetOf(FdbKey key) {
  if (movers_.empty()) movers_.resize(kSets);
  return movers_[absl::Hash<FdbKey>()(key) % kSets];
}

MoveDamper::Mover* MoveDamper::Find(FdbKey key) {
  const std::unique_ptr<Set>& there = SetOf(key);
  if (there == nullptr) return nullptr;
  Set& set = *there;
  const auto mover = std::find_if(set.begin(), set.end(),
                                  [key](const Mover& m) { return !m.IsFree() && m.key == key; });
  return mover == set.end() ? nullptr : &*mover;
}

int MoveDamper::MovesWithin(const Mover& mover, absl::Time now) const {
  int moves = 0;
  for (int i = 1; i <= mover.count; ++i) {
    moves += now - mover.times[static_cast<size_t>(mover.next + kMostMoves - i) % kMostMoves] <
             options_.window;
  }
  return moves;
}

MoveDamper::Mover* MoveDamper::FindOrMake(FdbKey key, absl::Time now) {
  if (Mover* const known = Find(key)) return known;
  std::unique_ptr<Set>& there = SetOf(key);
  if (there == nullptr) there = std::make_unique<Set>();
  Set& set = *there;
  // The mover with the fewest moves gives way: an attacker's many MACs must not push out one that
  // moves often.
  const auto least = [this, now](const Mover& a, const Mover& b) {
    return std::make_pair(MovesWithin(a, now), a.IsFree() ? absl::InfinitePast() : a.Last()) <
           std::make_pair(MovesWithin(b, now), b.IsFree() ? absl::InfinitePast() : b.Last());
  };
  Mover& mover = *std::min_element(set.begin(), set.end(), least);
  mover = {};
  mover.key = key;
  return &mover;
}

void MoveDamper::Mover::Record(absl::Time now) {
  times[next] = now;
  next = static_cast<uint8_t>((next + 1) % kMostMoves);
  count = static_cast<uint8_t>(std::min(count + 1, kMostMoves));
}

// Updates the home of `mover`, which is about to move from `at` to `claimant`. Moves between local
// ports are not reported here, so a local home takes its current port from the next move from or to
// a local port.
void MoveDamper::UpdateHome(Mover* mover, Place at, Place claimant, absl::Time now) const {
  if (mover->IsFree() || now - mover->Last() >= options_.window) mover->SetHome(at);
  if (!mover->home_is_local) return;
  if (at.local) mover->SetHome(at);
  if (claimant.local) mover->SetHome(claimant);
}

// Whether two queue pairs are at one port (GID): those of an agent that restarted, or of two
// agents.
bool MoveDamper::IsOnePort(Place a, Place b) const {
  return gid_of_ && !a.local && !b.local && gid_of_(a.vport) == gid_of_(b.vport);
}

MoveDamper::Judgement MoveDamper::OnMove(FdbKey key, Place at, Place claimant, absl::Time now) {
  if (options_.action == Action::kOff || IsOnePort(at, claimant)) return {Verdict::kMove, {}};
  Mover& mover = *FindOrMake(key, now);
  UpdateHome(&mover, at, claimant, now);
  mover.Record(now);
  if (MovesWithin(mover, now) < options_.moves) return {Verdict::kMove, {}};
  const Place home = mover.Home();
  const bool is_local_stations = !home.local && (at.local || claimant.local);
  if (options_.action == Action::kWarn || is_local_stations) {
    mover.count = 0;  // counting starts again; the home stays
    return {Verdict::kWarn, {}};
  }
  // The station at home that takes its MAC back is not to blame for the move.
  const VPortId blamed = claimant == home ? at.vport : claimant.vport;
  const Gid gid = gid_of_ ? gid_of_(blamed) : Gid::FromPrefixAndGuid(0, Guid(blamed.value()));
  if (!MayFreeze(gid)) return {Verdict::kHold, home};
  const bool for_a_time = options_.action == Action::kFreeze;
  Freeze(key, {home.vport, blamed, gid, now,
               for_a_time ? now + options_.freeze : absl::InfiniteFuture()});
  mover = {};
  return {Verdict::kFreeze, home};
}

bool MoveDamper::MayFreeze(const Gid& claimant) const {
  const auto held = frozen_by_.find(claimant);
  return frozen_.size() < options_.most_frozen &&
         (held == frozen_by_.end() || held->second < options_.most_frozen_per_gid);
}

void MoveDamper::Freeze(FdbKey key, const Frozen& frozen) {
  // A MAC may be frozen again while it is still frozen; replace the record, and keep the counts per
  // GID right.
  Thaw(key);
  frozen_.emplace(key, frozen);
  ++frozen_by_[frozen.claimant_gid];
}

bool MoveDamper::Thaw(FdbKey key) {
  const auto frozen = frozen_.find(key);
  if (frozen == frozen_.end()) return false;
  const auto held = frozen_by_.find(frozen->second.claimant_gid);
  if (--held->second == 0) frozen_by_.erase(held);
  frozen_.erase(frozen);
  return true;
}

void MoveDamper::VisitMovers(absl::FunctionRef<void(Mover*)> visit) const {
  for (const std::unique_ptr<Set>& set : movers_) {
    if (set == nullptr) continue;
    for (Mover& mover : *set) visit(&mover);
  }
}

void MoveDamper::ForgetHome(VPortId vport) {
  VisitMovers([vport](Mover* mover) {
    if (mover->home == vport) *mover = {};
  });
}

void MoveDamper::VisitVPorts(absl::Time now, absl::FunctionRef<void(VPortId)> visit) const {
  VisitMovers([&](Mover* mover) {
    if (!mover->IsFree() && now - mover->Last() < options_.window) visit(mover->home);
  });
  for (const auto& [key, frozen] : frozen_) visit(frozen.claimant);
}

std::vector<FdbKey> MoveDamper::Due(absl::Time now) const {
  std::vector<FdbKey> due;
  for (const auto& [key, frozen] : frozen_) {
    if (frozen.until <= now) due.push_back(key);
  }
  return due;
}

}  // namespace eoib
