// CountRanking: finds the member with the largest count.
#ifndef EOIB_FDB_COUNT_RANKING_H_
#define EOIB_FDB_COUNT_RANKING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

namespace eoib {

// Members are small numbers. They form a binary heap, so a change takes logarithmic time. For one
// thread.
class CountRanking {
 public:
  // A member's count is 0 until it is set.
  void Set(uint32_t member, size_t count);
  size_t Count(uint32_t member) const { return member < counts_.size() ? counts_[member] : 0; }
  // Some member with the largest count; nothing if all are 0.
  absl::optional<uint32_t> Largest() const;

 private:
  size_t CountAt(size_t place) const { return counts_[heap_[place]]; }
  void Swap(size_t a, size_t b);

  std::vector<size_t> counts_;  // by member
  // Members; the one at (i - 1) / 2 has no smaller count than the one at i.
  std::vector<uint32_t> heap_;
  std::vector<uint32_t> places_;  // by member: where it is in the heap
};

}  // namespace eoib

#endif  // EOIB_FDB_COUNT_RANKING_H_
