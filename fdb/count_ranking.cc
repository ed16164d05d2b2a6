#include "fdb/count_ranking.h"

#include <utility>

namespace eoib {

void CountRanking::Set(uint32_t member, size_t count) {
  while (counts_.size() <= member) {
    places_.push_back(static_cast<uint32_t>(heap_.size()));
    heap_.push_back(static_cast<uint32_t>(counts_.size()));
    counts_.push_back(0);
  }
  counts_[member] = count;
  size_t place = places_[member];
  for (size_t above; place != 0 && CountAt(above = (place - 1) / 2) < count; place = above)
    Swap(place, above);
  for (size_t below; (below = 2 * place + 1) < heap_.size(); place = below) {
    if (below + 1 < heap_.size() && CountAt(below + 1) > CountAt(below)) ++below;
    if (CountAt(below) <= count) return;
    Swap(place, below);
  }
}

void CountRanking::Swap(size_t a, size_t b) {
  std::swap(heap_[a], heap_[b]);
  places_[heap_[a]] = static_cast<uint32_t>(a);
  places_[heap_[b]] = static_cast<uint32_t>(b);
}

absl::optional<uint32_t> CountRanking::Largest() const {
  if (heap_.empty() || CountAt(0) == 0) return absl::nullopt;
  return heap_[0];
}

}  // namespace eoib
