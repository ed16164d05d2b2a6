#include "fdb/count_ranking.h"

namespace eoib {

void CountRanking::Set(uint32_t member, size_t count) {
  if (member >= members_.size()) members_.resize(member + 1);
  const uint32_t former = members_[member].level;
  if (Count(member) == count) return;
  // The search for the new level starts at the former one, so remove that afterwards, if it is empty.
  const uint32_t level = count == 0 ? kNone : LevelFor(count, former);
  if (former != kNone) Leave(member);
  if (former != kNone && levels_[former].first == kNone) RemoveLevel(former);
  if (level != kNone) Enter(member, level);
}

absl::optional<uint32_t> CountRanking::Largest() const {
  if (highest_ == kNone) return absl::nullopt;
  return levels_[highest_].first;
}

// Finds the level of `count`, or makes it. Searches from `near`, or from the lowest level if that is kNone.
uint32_t CountRanking::LevelFor(size_t count, uint32_t near) {
  uint32_t lower = near == kNone ? kNone : near;  // a level below `count`, or none
  while (lower != kNone && levels_[lower].count >= count) {
    if (levels_[lower].count == count) return lower;
    lower = levels_[lower].lower;
  }
  for (;;) {
    const uint32_t next = lower == kNone ? lowest_ : levels_[lower].higher;
    if (next == kNone || levels_[next].count > count) return NewLevel(count, lower);
    if (levels_[next].count == count) return next;
    lower = next;
  }
}

// Adds a level above `lower`, or as the lowest if that is kNone.
uint32_t CountRanking::NewLevel(size_t count, uint32_t lower) {
  uint32_t level = static_cast<uint32_t>(levels_.size());
  if (free_levels_.empty()) {
    levels_.emplace_back();
  } else {
    level = free_levels_.back();
    free_levels_.pop_back();
  }
  const uint32_t higher = lower == kNone ? lowest_ : levels_[lower].higher;
  levels_[level] = {count, kNone, lower, higher};
  (lower == kNone ? lowest_ : levels_[lower].higher) = level;
  (higher == kNone ? highest_ : levels_[higher].lower) = level;
  return level;
}

void CountRanking::RemoveLevel(uint32_t level) {
  const Level& gone = levels_[level];
  (gone.lower == kNone ? lowest_ : levels_[gone.lower].higher) = gone.higher;
  (gone.higher == kNone ? highest_ : levels_[gone.higher].lower) = gone.lower;
  free_levels_.push_back(level);
}

void CountRanking::Leave(uint32_t member) {
  const Member& gone = members_[member];
  (gone.before == kNone ? levels_[gone.level].first : members_[gone.before].after) = gone.after;
  if (gone.after != kNone) members_[gone.after].before = gone.before;
  members_[member] = {};
}

void CountRanking::Enter(uint32_t member, uint32_t level) {
  const uint32_t first = levels_[level].first;
  members_[member] = {level, kNone, first};
  if (first != kNone) members_[first].before = member;
  levels_[level].first = member;
}

}  // namespace eoib
