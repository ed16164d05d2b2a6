// FdbBudget: the limit on entries of all FDBs of one host together. At the limit, the vPort with most entries gives one up.
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
  static constexpr size_t kUnlimited = ~size_t{0};

  explicit FdbBudget(size_t limit = kUnlimited) : limit_(limit) {}
  FdbBudget(const FdbBudget&) = delete;
  FdbBudget& operator=(const FdbBudget&) = delete;

  void Add(Fdb* fdb);
  void Remove(Fdb* fdb);

  // Adds `entries`, which may be negative, to the number in use.
  void Took(int64_t entries) { used_.fetch_add(static_cast<size_t>(entries), std::memory_order_relaxed); }
  bool IsSpent() const { return used_.load(std::memory_order_relaxed) >= limit(); }
  // Evicts an entry of the vPort that holds most, in any FDB, if it holds at least `least`. The caller must hold no FDB's
  // lock.
  bool MakeRoom(size_t least);

  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // Entries beyond a smaller limit stay until others need room.
  void SetLimit(size_t limit) { limit_.store(limit, std::memory_order_relaxed); }

 private:
  std::atomic<size_t> limit_;
  std::atomic<size_t> used_{0};
  absl::Mutex mutex_;
  std::vector<Fdb*> fdbs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_BUDGET_H_
