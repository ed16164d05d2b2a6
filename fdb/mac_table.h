// MacTable: the table under the FDB, and the one place that knows how concurrent lookup works.
//
// The interface is that of a concurrent table: lookups come in batches, from any thread, and a caller holds no lock and no
// pointer into the table; there is one writer at a time. Today absl::flat_hash_map fills it, behind a reader lock taken once a
// batch; a lock-free bucketed table takes its place without a change to any caller.
#ifndef EOIB_FDB_MAC_TABLE_H_
#define EOIB_FDB_MAC_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"

namespace eoib {

// Who vouches for an entry, weakest first: a stronger origin is never displaced by a weaker one.
enum class FdbOrigin : uint8_t { kRemoteLearned, kAnnounced, kLocalLearned, kManager, kStatic };

// What the operator or the manager says stands until they take it back.
constexpr bool Ages(FdbOrigin origin) { return origin != FdbOrigin::kStatic && origin != FdbOrigin::kManager; }

struct MacEntry {
  VPortId vport = VPortId::None();
  uint32_t last_seen = 0;  // seconds of the owner's clock
  FdbOrigin origin = FdbOrigin::kRemoteLearned;
};

// Find and Touch: any thread. Everything else: one writer at a time.
class MacTable {
 public:
  // out[i] is the vPort of keys[i], or VPortId::None() if there is no entry, or one that ages and was last seen before
  // `not_before` (seconds of the owner's clock). Requires out.size() >= keys.size().
  void Find(absl::Span<const FdbKey> keys, uint32_t not_before, absl::Span<VPortId> out) const;

  // Marks keys[i] as seen at `now_seconds` where its entry points to vports[i]. Writes to `stale` the indices of all others
  // (absent, or behind another vPort) and returns their number. Requires vports and stale as long as keys.
  size_t Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, uint32_t now_seconds,
               absl::Span<uint16_t> stale) const;

  // Copies the entry of `key` to *entry; false if there is none.
  bool Get(FdbKey key, MacEntry* entry) const;

  void Put(FdbKey key, const MacEntry& entry);
  bool Erase(FdbKey key);
  // Erases every entry for which `condemned` is true; returns how many. Lookups go on while it searches; an entry that is
  // touched meanwhile is judged again.
  size_t EraseIf(const std::function<bool(FdbKey, const MacEntry&)>& condemned);
  // Calls `visit` on every entry, in no order. `visit` must not call the table.
  void ForEach(const std::function<void(FdbKey, const MacEntry&)>& visit) const;
  size_t size() const;

 private:
  void Prefetch(absl::Span<const FdbKey> keys, size_t index) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<FdbKey, MacEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_TABLE_H_
