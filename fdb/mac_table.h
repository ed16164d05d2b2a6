// MacTable: the hash table under the FDB. README.md has its design.
//
// Lookups come in batches, from any thread. They wait only for a bucket that the writer is just changing; a caller holds no
// lock and no pointer into the table. There is one writer at a time. The table grows and shrinks in place, a few buckets at
// each change, and no reader waits for more than one bucket.
#ifndef EOIB_FDB_MAC_TABLE_H_
#define EOIB_FDB_MAC_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "fdb/bucket_memory.h"
#include "fdb/cohort_vports.h"
#include "fdb/fdb_key.h"
#include "fdb/key_hash.h"
#include "fdb/mac_bucket.h"
#include "fdb/mac_view.h"
#include "fdb/vport.h"

namespace eoib {

struct MacBatch;

// The source of an entry, weakest first. A weaker origin never displaces a stronger one.
enum class FdbOrigin : uint8_t { kRemoteLearned, kAnnounced, kLocalLearned, kManager, kStatic };

struct MacEntry {
  CohortId cohort;
  // In ticks of the owner's clock, modulo 2^16. The table stores 0 for entries that do not age, and 1 instead of 0 for others.
  uint16_t last_seen = 0;
  FdbOrigin origin = FdbOrigin::kRemoteLearned;
  bool pinned = false;  // stays in place until the owner unpins it

  // Static and managed entries stay until the operator or the manager removes them.
  bool Ages() const { return !pinned && origin != FdbOrigin::kStatic && origin != FdbOrigin::kManager; }
};

// Find, Touch, Get, VPortOf, size, memory_bytes: any thread. Everything else: one writer at a time.
class MacTable {
 public:
  struct Options {
    size_t most_entries = size_t{1} << 26;  // address space is reserved for so many
    uint64_t seed = KeyHash::ProcessSeed();
  };
  MacTable() : MacTable(Options()) {}
  explicit MacTable(const Options& options);
  MacTable(const MacTable&) = delete;
  MacTable& operator=(const MacTable&) = delete;

  // out[i] is the vPort of keys[i], or VPortId::None() if there is no entry, or one that aged out by `limit`. Requires
  // out.size() >= keys.size(). Best for 32 keys or more; for a stream of batches MacLookup is better.
  void Find(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) const;

  // Prefetches the cache lines of keys that Find or Touch will need soon, such as the destinations of a burst before its
  // sources are looked up.
  void Prefetch(absl::Span<const FdbKey> keys) const;

  // Marks keys[i] as seen at tick `now` if it is behind vports[i]. Stores to an entry only if that changes it. Writes the
  // indices of the other keys (absent, or behind another vPort) to `stale`, ascending, and returns their number. Requires
  // vports and stale as long as keys, and at most 65,536 keys.
  size_t Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, uint16_t now, absl::Span<uint16_t> stale) const;

  // Copies the entry of `key` to *entry; false if there is none.
  bool Get(FdbKey key, MacEntry* entry) const;

  // Sets the vPort of all entries of a cohort: one store moves or forgets (VPortId::None()) them all. A cohort without entries
  // may become another vPort's; a late reader does not confuse the two. False if there is no memory. Requires cohort.value() <
  // most_entries.
  bool SetCohort(CohortId cohort, VPortId vport) { return cohorts_.Set(cohort, vport); }
  VPortId VPortOf(CohortId cohort) const { return cohorts_.Get(cohort); }

  // Adds or replaces an entry. False if there is no room: all reserved space is in use, or there is no memory. Replacing never
  // fails. Requires entry.cohort.value() < most_entries.
  bool Put(FdbKey key, const MacEntry& entry);
  bool Erase(FdbKey key);

  // A position in the table; 0 is the beginning. A key's position never changes, however the table grows or shrinks.
  using Cursor = uint64_t;
  using Visitor = absl::FunctionRef<void(FdbKey, const MacEntry&)>;
  using Predicate = absl::FunctionRef<bool(FdbKey, const MacEntry&)>;
  // Calls `visit` on the entries of the next `buckets` buckets after *cursor and advances the cursor. At the end returns false
  // and resets the cursor. A round visits each entry that is there all the time exactly once. `visit` must not call the table.
  bool VisitNext(Cursor* cursor, size_t buckets, Visitor visit) const;
  // Likewise, but erases the entries for which `condemned` is true, and adds their number to *erased.
  bool EraseNext(Cursor* cursor, size_t buckets, Predicate condemned, size_t* erased);
  // Likewise, but stops at an entry for which `wanted` is true, sets *key to it and leaves the cursor at its bucket. False if
  // there is none. Costs a few nanoseconds a bucket. To find an entry of a vPort that holds one in N takes about N/3 buckets.
  bool FindNext(Cursor* cursor, size_t buckets, Predicate wanted, FdbKey* key) const;

  // A whole round of EraseNext. Returns how many entries were erased.
  size_t EraseIf(Predicate condemned);
  // A whole round of VisitNext.
  void ForEach(Visitor visit) const;

  // The number of buckets now. A round of a cursor visits about as many.
  size_t buckets() const { return shape_.high.load(std::memory_order_relaxed); }
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Memory of the buckets in use and of the object itself.
  size_t memory_bytes() const;
  // Counts slots, entries, and entries away from home. Walks the table. For tests and benchmarks.
  struct Occupancy {
    size_t entries = 0, away = 0, stashed = 0, slots = 0;
  };
  Occupancy MeasureOccupancy() const;

 private:
  template <typename Matcher>
  friend class BasicMacLookup;
  friend class MacTablePeer;  // tests: loses a bucket on purpose

  struct Slot {
    MacBucket* bucket = nullptr;
    int slot = 0;
  };
  // Positions from `from` on, below `to`.
  struct Range {
    uint64_t from, to;
    bool Has(uint64_t position) const { return position >= from && position < to; }
  };
  // An entry as a reader saw it.
  struct Sighting {
    bool found = false;
    const MacBucket* bucket = nullptr;
    int slot = 0;
    MacRecord record;
    VPortId vport;
  };
  enum class Look { kFound, kAbsent, kChanging };

  // Readers.
  MacView View() const { return MacView::Of(memory_.buckets(), cohorts_.reader(), &hash_, &shape_); }
  Look LookInto(const MacBucket& bucket, uint64_t key, uint64_t* head, Sighting* sighting) const;
  Sighting Lookup(FdbKey key) const;
  bool LookupOnce(uint64_t key, uint32_t position, Sighting* sighting) const;
  VPortId FindOne(FdbKey key, AgeLimit limit) const;
  bool TouchOne(FdbKey key, VPortId vport, uint16_t now) const;
  bool IsMissFinal(const MacView& view, uint32_t position) const;
  uint32_t Uncertain(const MacBatch& batch) const;
  uint32_t TouchBatch(const MacBatch& batch, absl::Span<const VPortId> vports, uint16_t now) const;

  // The writer.
  BucketMap map() const { return shape_.Map(); }
  MacBucket* BucketAt(uint32_t position) const { return memory_.buckets() + map().Index(position); }
  MacBucket* OtherBucket(const MacBucket* bucket, uint64_t key) const;
  bool IsStash(const MacBucket* bucket) const { return bucket >= stash_.data() && bucket < stash_.data() + stash_.size(); }
  uint32_t stashed() const { return shape_.stashed.load(std::memory_order_relaxed); }
  Slot Locate(uint64_t key) const;
  bool Insert(const MacRecord& record, size_t most_stashed);
  static bool InsertInto(MacBucket* bucket, const MacRecord& record);
  bool MakeRoom(MacBucket* home, MacBucket* secondary);
  bool MoveOut(const Slot& from, MacBucket* to);
  bool Stash(const MacRecord& record);
  void Remove(const Slot& where);
  void BringHome(uint32_t position);
  void EmptyStash();
  Range HomeRange(uint32_t position) const;
  void VisitHome(const Range& range, absl::FunctionRef<bool(const Slot&)> visit) const;
  void VisitAway(const Range& range, uint32_t tag, absl::FunctionRef<bool(const Slot&)> visit) const;

  // Resizing.
  static constexpr uint32_t kLeastBuckets = 4;
  static constexpr uint64_t Capacity(uint32_t buckets) { return uint64_t{buckets} * MacBucket::kSlots; }
  bool IsResizing() const { return map().low != map().high; }
  void ResizeIfDue();
  bool StartGrowing();
  bool GrowNow();
  bool Step();
  void TakeUp(const Range& range);
  void FinishResizing();
  void Reshape(const BucketMap& to);
  void BeginStep(uint64_t from, uint64_t to);
  void EndStep();
  void InitBucket(MacBucket* bucket);
  void InitBuckets(uint32_t from, uint32_t to);

  const KeyHash hash_;
  BucketMemory memory_;
  CohortVPorts cohorts_;
  MacShape shape_;
  std::atomic<size_t> size_{0};

  // The stash: entries that found no room in either bucket, even by moving others. Nearly always empty.
  static constexpr size_t kStashBuckets = 16, kStashed = kStashBuckets * MacBucket::kSlots;
  // Stash slots reserved for entries that a step of resizing cannot place elsewhere.
  static constexpr size_t kStashedByStep = kStashed / 2;
  mutable std::array<MacBucket, kStashBuckets> stash_;

  // For the writer only.
  bool growing_ = false;           // direction of the resizing in progress
  uint32_t fresh_ = 0;             // of the added buckets, those from this index on are initialised
  uint64_t life_ = 0;              // first sequence number of new buckets
  std::vector<MacRecord> hand_;    // entries that a step of resizing moves
  std::vector<FdbKey> condemned_;  // keys that EraseNext found in a bucket
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_TABLE_H_
