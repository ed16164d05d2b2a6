// CountRanking: finds the member with the largest count, where counts change by one.
#ifndef EOIB_FDB_COUNT_RANKING_H_
#define EOIB_FDB_COUNT_RANKING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

namespace eoib {

// Members are small numbers. Members with the same count form a level, and the levels form a list ordered by count. So a
// change by one and Largest take constant time. For one thread.
class CountRanking {
 public:
  // A member's count is 0 until it is set. A change by one takes constant time; a larger one takes a step for each level
  // between.
  void Set(uint32_t member, size_t count);
  size_t Count(uint32_t member) const {
    return member < members_.size() && members_[member].level != kNone ? levels_[members_[member].level].count : 0;
  }
  // Some member with the largest count; nothing if all are 0.
  absl::optional<uint32_t> Largest() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Member {
    uint32_t level = kNone, before = kNone, after = kNone;  // in its level
  };
  struct Level {
    size_t count = 0;
    uint32_t first = kNone;  // member
    uint32_t lower = kNone, higher = kNone;
  };

  uint32_t LevelFor(size_t count, uint32_t near);
  uint32_t NewLevel(size_t count, uint32_t lower);
  void RemoveLevel(uint32_t level);
  void Leave(uint32_t member);
  void Enter(uint32_t member, uint32_t level);

  std::vector<Member> members_;
  std::vector<Level> levels_;
  std::vector<uint32_t> free_levels_;
  uint32_t lowest_ = kNone, highest_ = kNone;
};

}  // namespace eoib

#endif  // EOIB_FDB_COUNT_RANKING_H_
