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
  const auto mover = std::find_if(set.begin(), set.end(), [key](const Mover& m) { return m.count != 0 && m.key == key; });
  return mover == set.end() ? nullptr : &*mover;
}

int MoveDamper::MovesWithin(const Mover& mover, absl::Time now) const {
  int moves = 0;
  for (int i = 1; i <= mover.count; ++i) {
    moves += now - mover.times[static_cast<size_t>(mover.next + kMostMoves - i) % kMostMoves] < options_.window;
  }
  return moves;
}

MoveDamper::Mover* MoveDamper::FindOrMake(FdbKey key, absl::Time now) {
  if (Mover* const known = Find(key)) return known;
  std::unique_ptr<Set>& there = SetOf(key);
  if (there == nullptr) there = std::make_unique<Set>();
  Set& set = *there;
  const auto least = [this, now](const Mover& a, const Mover& b) {
    return std::make_pair(MovesWithin(a, now), a.count == 0 ? absl::InfinitePast() : a.Last()) <
           std::make_pair(MovesWithin(b, now), b.count == 0 ? absl::InfinitePast() : b.Last());
  };
  Mover& mover = *std::min_element(set.begin(), set.end(), least);
  mover = {};
  mover.key = key;
  return &mover;
}

MoveDamper::Verdict MoveDamper::OnMove(FdbKey key, VPortId at, VPortId claimant, absl::Time now) {
  if (options_.action == Action::kOff) return Verdict::kMove;
  Mover& mover = *FindOrMake(key, now);
  mover.times[mover.next] = now;
  mover.next = static_cast<uint8_t>((mover.next + 1) % kMostMoves);
  mover.count = static_cast<uint8_t>(std::min(mover.count + 1, kMostMoves));
  if (MovesWithin(mover, now) < options_.moves) return Verdict::kMove;
  mover = {};  // it is counted anew
  if (options_.action == Action::kWarn || frozen_.size() >= options_.most_frozen) return Verdict::kWarn;
  const bool for_a_time = options_.action == Action::kFreeze;
  frozen_.insert_or_assign(key, Frozen{at, claimant, now, for_a_time ? now + options_.freeze : absl::InfiniteFuture()});
  return Verdict::kFreeze;
}

void MoveDamper::Forgive(FdbKey key) {
  Mover* const mover = movers_.empty() ? nullptr : Find(key);
  if (mover == nullptr) return;
  mover->next = static_cast<uint8_t>((mover->next + kMostMoves - 1) % kMostMoves);
  --mover->count;
}

bool MoveDamper::Thaw(FdbKey key) { return frozen_.erase(key) != 0; }

std::vector<FdbKey> MoveDamper::Due(absl::Time now) const {
  std::vector<FdbKey> due;
  for (const auto& [key, frozen] : frozen_) {
    if (frozen.until <= now) due.push_back(key);
  }
  return due;
}

}  // namespace eoib
