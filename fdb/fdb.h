// Fdb: the forwarding database of one VES on one agent. It maps (VID, MAC) to a vPort.
//
// An entry lives `ageing` after the MAC was last heard (IEEE 802.1Q-2018 §8.8.3). README.md ("The
// policy") says which entry displaces which, how moves are damped, and which entry gives way at a
// limit.
//
// Threads. Find and Refresh belong to the data path: any thread, in batches, without a lock. Learn
// and the other changes may come from any thread too; a mutex serialises them. Their work is
// bounded, except for flushes, which look at each pair of a VLAN and a vPort that has entries.
//
// Invariants: every change but that of the time when a MAC was last heard (Refresh) happens under
// the mutex. A walk over the table releases it after kBucketsAtATime buckets, because frames of new
// sources wait for it.
#ifndef EOIB_FDB_FDB_H_
#define EOIB_FDB_FDB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "fdb/fdb_assignment.h"
#include "fdb/fdb_entries.h"
#include "fdb/fdb_event.h"
#include "fdb/fdb_eviction.h"
#include "fdb/fdb_key.h"
#include "fdb/fdb_learning.h"
#include "fdb/fdb_ticks.h"
#include "fdb/fdb_types.h"
#include "fdb/mac_table.h"
#include "fdb/move_damper.h"
#include "fdb/vport.h"
#include "vswitch/base/clock.h"

namespace eoib {

class Fdb {
 public:
  using Options = FdbOptions;
  using VPortPolicy = FdbVPortPolicy;
  using Learned = FdbLearned;
  using Damped = FdbDamped;
  using LearnResult = FdbLearnResult;

  struct Entry {  // a row of `fdb show`
    FdbKey key;
    VPortId vport;
    FdbOrigin origin;
    absl::Duration age;  // since last heard; zero for entries that do not age
    bool sticky = false;
    bool frozen = false;
  };
  struct Part {
    std::vector<Entry> entries;
    absl::optional<FdbKey> next;  // absent: there are no more entries
  };
  struct Holding {  // a row of `fdb stats`
    VPortId vport;
    size_t dynamic, pinned, fixed, limit;
  };

  Fdb(const Options& options, const Clock* clock);
  Fdb(const Fdb&) = delete;
  Fdb& operator=(const Fdb&) = delete;

  // Applies to entries learned from now on.
  void SetVPortPolicy(VPortId vport, const VPortPolicy& policy);
  // `vport` is gone: flushes all of its entries, also static ones, and drops its policy.
  void RemoveVPort(VPortId vport);

  // Changes ageing, limits and damping, while no thread looks up. The ticks of the ageing times
  // have the same length (FdbTicks). Entries beyond a smaller limit stay until others need room.
  void Change(const Options& options);

  // out[i] is the vPort of keys[i], or VPortId::None() if the MAC is unknown or aged out (expiry
  // does not wait for Age()).
  void Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const;

  // Requests the memory that Find and Refresh will look into, for a caller with other work to do
  // meanwhile.
  void Prefetch(FdbKey key) const { table_.Prefetch(key); }

  // For readers with a stream of batches: MacLookup(&fdb.table()).Ask(keys, fdb.Limit(), out).
  const MacTable& table() const { return table_; }
  AgeLimit Limit() const { return ticks_.Limit(ticks_.At(clock_->Now())); }

  // The sources of a batch: keys[i] was heard from vports[i]. Refreshes the entries that agree, and
  // writes the indices of the others to `stale`, for Learn. Returns their number. Requires vports
  // and stale as long as keys, and fewer than 65,536 keys.
  size_t Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports,
                 absl::Span<uint16_t> stale) const;

  // `key` was heard from `vport`. `origin` is kLocalLearned or kRemoteLearned.
  LearnResult Learn(FdbKey key, VPortId vport, FdbOrigin origin);

  // An entry of a former run, last heard `age` ago. It ages on. Displaces nothing; returns whether
  // it was added.
  bool Restore(FdbKey key, VPortId vport, FdbOrigin origin, absl::Duration age);

  // The agents agree that `key` is behind `vport`, another agent's. The entry does not age. Returns
  // kNew, kMoved, kKnown, kOverruled, kPinned, kLimit or kGroup.
  LearnResult Announce(FdbKey key, VPortId vport) {
    return Assign(key, vport, FdbOrigin::kAnnounced);
  }
  // They agree that it is behind our `vport`. The entry ages. Results as above.
  LearnResult Claim(FdbKey key, VPortId vport) { return Assign(key, vport, FdbOrigin::kClaimed); }
  // Whether `vport` can have another entry without the eviction of one.
  bool HasRoom(VPortId vport) const;
  // No other agent has `key` any more. False if its entry is not an announced one.
  bool Withdraw(FdbKey key);

  // Static entries neither age nor move. kInvalidArgument for a group or zero address;
  // kAlreadyExists if another vPort has a static entry for the key; kResourceExhausted if there is
  // no memory.
  absl::Status AddStatic(FdbKey key, VPortId vport);
  absl::Status RemoveStatic(FdbKey key);  // kNotFound if there is none

  // Flush learned and announced entries: all, those of one VLAN, those of one vPort. Return how
  // many. When the call returns, no lookup finds them. Pinned entries stay.
  size_t Flush();
  size_t FlushVlan(Vid vid);
  size_t FlushLearned(VPortId vport);
  bool FlushMac(FdbKey key, VPortId vport);  // false if `key` has no such entry there
  // Flushes the pinned entries of `vport`, sticky or frozen. Their MACs can then be learned again.
  size_t FlushSticky(VPortId vport);
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);

  // Housekeeping, in small pieces: reclaims entries that aged out or were flushed, and ends freezes
  // that are due. Call it about once a second. An entry is reclaimed within a tenth of the ageing
  // time (at least 1, at most 30 seconds). Returns how many aged-out entries it removed.
  size_t Age();

  absl::optional<Entry> Get(FdbKey key) const;
  // Calls `visit` on all entries, in no order, and never holds the lock for long. `visit` must not
  // call the FDB.
  void Visit(absl::FunctionRef<void(const Entry&)> visit) const;
  // All entries, sorted by VID, then MAC.
  std::vector<Entry> Dump() const;
  // The first part of the entries, or the one after that with the `next` of `after`: about `size`
  // entries, or those that are left. The parts come in no order, each is sorted. Looks only at the
  // part of the table that has them. All parts together have each entry that is there all the time
  // exactly once. Requires size > 0.
  Part DumpPart(absl::optional<FdbKey> after, size_t size) const;
  std::vector<Holding> Holdings() const;  // the vPort with most dynamic entries first
  // The number of entries of a vPort.
  size_t Held(VPortId vport) const;
  size_t HeldLearned(VPortId vport) const;  // without static ones
  // The number of entries. Flushed ones do not count; aged-out ones count until they are reclaimed.
  size_t size() const { return sizes_.live.load(std::memory_order_relaxed); }
  size_t memory_bytes() const { return table_.memory_bytes(); }
  // The unit in which it counts ages.
  absl::Duration tick() const { return ticks_.tick(); }
  FdbCounters counters() const;
  absl::flat_hash_map<FdbKey, MoveDamper::Frozen> frozen() const;
  // vPorts whose number must not be reused although they may have no entry: homes of MACs that
  // moved lately, and claimants of frozen ones.
  absl::flat_hash_set<VPortId> DampedVPorts() const;
  // Call events() again after Watch: the former ring gets no more events.
  const FdbEvents& events() const { return log_.events(); }
  void Watch();
  // Adds an event of the owner's (FdbEvent::Kind::kNote) to them.
  void Note(uint32_t number);
  const Options& options() const { return options_; }

 private:
  // Frames of new sources wait for the lock, so walks release it after this number of buckets.
  static constexpr size_t kBucketsAtATime = 64;

  LearnResult Assign(FdbKey key, VPortId vport, FdbOrigin origin);
  size_t FlushOf(VPortId vport, EntryKind kind);
  Entry ToRow(FdbKey key, const MacEntry& entry, VPortId vport, AgeLimit limit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  // As MacTable::VisitNext, for the entries that a lookup finds.
  bool VisitLive(MacTable::Cursor* cursor, size_t buckets, AgeLimit limit,
                 absl::FunctionRef<void(const Entry&)> visit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  size_t BeginAge(absl::Duration round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  Options options_;
  FdbTicks ticks_;
  const Clock* const clock_;
  MacTable table_;
  FdbEventLog log_;
  FdbSizes sizes_;

  mutable absl::Mutex writer_;  // serialises changes of table_
  FdbEntries entries_ ABSL_GUARDED_BY(writer_);
  FdbEviction eviction_ ABSL_GUARDED_BY(writer_);
  FdbLearning learning_ ABSL_GUARDED_BY(writer_);
  FdbAssignment assignment_ ABSL_GUARDED_BY(writer_);
  MacTable::Cursor age_at_ ABSL_GUARDED_BY(writer_) = 0;
  absl::Time aged_ ABSL_GUARDED_BY(writer_);  // when Age was last called
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_H_
