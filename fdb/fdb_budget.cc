#include "fdb/fdb_budget.h"

#include <algorithm>

#include "fdb/fdb.h"

namespace eoib {

void FdbBudget::Add(Fdb* fdb) {
  absl::MutexLock lock(&mutex_);
  fdbs_.push_back(fdb);
}

void FdbBudget::Remove(Fdb* fdb) {
  absl::MutexLock lock(&mutex_);
  std::erase(fdbs_, fdb);
}

bool FdbBudget::MakeRoom(size_t least) {
  absl::MutexLock lock(&mutex_);
  // largest_holding() takes no lock, so the choice may be slightly out of date; EvictLargest checks it again under the FDB's
  // lock.
  const auto largest = std::max_element(fdbs_.begin(), fdbs_.end(),
                                        [](const Fdb* a, const Fdb* b) { return a->largest_holding() < b->largest_holding(); });
  return largest != fdbs_.end() && (*largest)->EvictLargest(least);
}

}  // namespace eoib
