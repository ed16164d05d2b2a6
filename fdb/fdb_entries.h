// FdbEntries: the entries of an FDB, and all that is kept beside them: accounts, freezes, counters,
// events.
#ifndef EOIB_FDB_FDB_ENTRIES_H_
#define EOIB_FDB_FDB_ENTRIES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/fdb_event.h"
#include "fdb/fdb_key.h"
#include "fdb/fdb_ticks.h"
#include "fdb/fdb_types.h"
#include "fdb/flush_groups.h"
#include "fdb/mac_table.h"
#include "fdb/move_damper.h"
#include "fdb/vport.h"
#include "vswitch/base/clock.h"

namespace eoib {

// The numbers that other threads read without the FDB's lock.
struct FdbSizes {
  std::atomic<size_t> live{0};  // entries that are not flushed
};

// For the FDB's writer, under its lock. The constructor's arguments outlive it.
class FdbEntries {
 public:
  // An entry as the writer finds it.
  struct Known {
    bool in_table = false;  // the table has the key; the entry may be flushed or aged out
    bool live = false;
    MacEntry entry;
    VPortId vport = VPortId::None();  // none: flushed
  };

  FdbEntries(const FdbOptions* options, const FdbTicks* ticks, const Clock* clock, MacTable* table,
             FdbEventLog* log, FdbSizes* sizes);
  FdbEntries(const FdbEntries&) = delete;
  FdbEntries& operator=(const FdbEntries&) = delete;

  // Reads the clock, once for each change.
  void BeginChange();
  absl::Time now() const { return now_; }
  AgeLimit Limit() const { return ticks_->Limit(tick_); }

  Known Look(FdbKey key) const;
  // An entry that was seen now, pinned if the policy of `vport` says so.
  MacEntry NewEntry(VPortId vport, FdbOrigin origin) const;
  // Writes `entry`, behind `vport`, over the known one. False if there is no memory.
  bool Write(FdbKey key, const Known& known, VPortId vport, MacEntry entry);
  void Erase(FdbKey key, const MacEntry& entry);
  // Erases an entry that is no longer live: it was flushed, or it aged out and was not reclaimed
  // yet.
  void Reclaim(FdbKey key, const Known& known);
  // Removes the entries that aged out or were flushed from the next `buckets` buckets. Returns how
  // many aged out.
  size_t Sweep(MacTable::Cursor* cursor, size_t buckets);

  void AddEvent(FdbEvent::Kind kind, FdbKey key, VPortId from, VPortId to);
  // `count` entries were flushed.
  void ReportFlushed(size_t count, FdbEvent::Scope scope, FdbKey key, VPortId vport);

  const MacTable& table() const { return *table_; }
  FlushGroups& groups() { return groups_; }
  const FlushGroups& groups() const { return groups_; }
  MoveDamper& damper() { return damper_; }
  const MoveDamper& damper() const { return damper_; }
  FdbCounters& counters() { return counters_; }
  const FdbCounters& counters() const { return counters_; }
  // Entries that exist keep what they have: a policy is for new ones.
  absl::flat_hash_map<VPortId, FdbVPortPolicy>& policies() { return policies_; }
  const absl::flat_hash_map<VPortId, FdbVPortPolicy>& policies() const { return policies_; }

 private:
  void Leave(FdbKey key, const MacEntry& entry);
  void CountAged(FdbKey key, VPortId vport);
  void Publish();

  const FdbTicks* const ticks_;
  const Clock* const clock_;
  MacTable* const table_;
  FdbEventLog* const log_;
  FdbSizes* const sizes_;
  absl::Time now_;  // of the change in progress
  uint16_t tick_ = 0;
  FlushGroups groups_;
  MoveDamper damper_;
  FdbCounters counters_;
  absl::flat_hash_map<VPortId, FdbVPortPolicy> policies_;
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_ENTRIES_H_
