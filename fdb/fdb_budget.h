// FdbBudget: how many entries the FDBs of one host may have together, and which of them has to give way.
#ifndef EOIB_FDB_FDB_BUDGET_H_
#define EOIB_FDB_FDB_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace eoib {

class Fdb;

// Thread-safe. Outlives the FDBs that share it.
class FdbBudget {
 public:
  explicit FdbBudget(size_t limit) : limit_(limit) {}
  FdbBudget(const FdbBudget&) = delete;
  FdbBudget& operator=(const FdbBudget&) = delete;

  void Add(Fdb* fdb);
  void Remove(Fdb* fdb);

  void Took(int64_t entries) { used_.fetch_add(static_cast<size_t>(entries), std::memory_order_relaxed); }
  bool IsSpent() const { return used_.load(std::memory_order_relaxed) >= limit_; }
  // Has the vPort that holds most of all, in whichever FDB, give up an entry, if it holds at least `least`; no lock of an FDB
  // may be held.
  bool MakeRoom(size_t least);

  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_; }

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
  absl::Mutex mutex_;
  std::vector<Fdb*> fdbs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_BUDGET_H_
