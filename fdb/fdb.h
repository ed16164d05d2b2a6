// Fdb: the forwarding database of one VES on one agent: which vPort a (VID, MAC) is behind.
//
// What it decides. A learned entry lives `ageing` after the MAC was last heard (IEEE 802.1Q-2018 §8.8.3), then the MAC is
// unknown again and floods. Group addresses are never learned. An entry of a stronger origin (static > manager > local learned
// > announced > remote learned) is never displaced by a weaker one; among learned entries the newest wins, which is how a MAC
// moves from a host to another. A full table refuses new MACs and goes on refreshing those it has: an attacker who invents
// source addresses evicts nobody, and unknown MACs still get their traffic, flooded.
//
// Threads. Find and Refresh belong to the data path: any thread, batched, no lock held by the caller. Learn and the other
// changes may come from any thread too and are serialised inside; they are rare.
#ifndef EOIB_FDB_FDB_H_
#define EOIB_FDB_FDB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "fdb/clock.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_table.h"
#include "fdb/vport.h"

namespace eoib {

class Fdb {
 public:
  struct Options {
    // Zero: learned entries never age. Above eight hours an entry may live one part in 28,800 longer.
    absl::Duration ageing = absl::Seconds(300);
    size_t limit = 65536;  // learned entries; static ones count but are never refused for it
  };

  // What became of an attempt to learn.
  enum class Learned : uint8_t {
    kNew,        // there was no entry
    kMoved,      // a learned entry was behind another vPort
    kKnown,      // the entry was right already, and was refreshed
    kOverruled,  // a stronger entry says otherwise and stays
    kLimit,      // the table is full
    kGroup,      // a group or zero address is nobody's source
  };
  struct LearnResult {
    Learned what;
    VPortId previous;  // where the MAC was: kMoved and kOverruled; else none
  };

  struct Entry {  // a row of `fdb show`
    FdbKey key;
    VPortId vport;
    FdbOrigin origin;
    absl::Duration age;  // since last heard; zero for static entries
  };

  Fdb(const Options& options, const Clock* clock);
  Fdb(const Fdb&) = delete;
  Fdb& operator=(const Fdb&) = delete;

  // out[i] is the vPort of keys[i], or VPortId::None() if the MAC is unknown (or aged out: expiry does not wait for Age()).
  void Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const;

  // The sources of a batch: keys[i] was heard from vports[i]. Entries that say so are refreshed. The indices of the others go
  // to `stale`, for Learn; returns their number. Requires vports and stale as long as keys, and fewer than 65,536 keys.
  size_t Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, absl::Span<uint16_t> stale) const;

  // `key` was heard from `vport`. `origin` is kLocalLearned or kRemoteLearned.
  LearnResult Learn(FdbKey key, VPortId vport, FdbOrigin origin);

  // Static entries neither age nor move. kInvalidArgument for a group address; kAlreadyExists if a static entry of another
  // vPort has the key; kResourceExhausted if there is no memory.
  absl::Status AddStatic(FdbKey key, VPortId vport);
  absl::Status RemoveStatic(FdbKey key);  // kNotFound if there is none

  // Forgets all learned entries, or those of one vPort; returns how many.
  size_t Flush();
  size_t FlushLearned(VPortId vport);
  size_t FlushVPort(VPortId vport);  // its static entries too: the vPort is going away
  // Forgets learned entries that nobody refreshed within the ageing time; returns how many. Call it every second or so.
  size_t Age();

  std::vector<Entry> Dump() const;  // sorted by VID, then MAC
  size_t size() const { return table_.size(); }
  const Options& options() const { return options_; }

 private:
  uint16_t NowTick() const;
  AgeLimit Limit(uint16_t now) const { return {now, ageing_ticks_}; }
  static bool IsLive(const MacEntry& entry, AgeLimit limit) { return !Ages(entry.origin) || !limit.IsOver(entry.last_seen); }
  LearnResult LearnOverEntry(FdbKey key, const MacEntry& old, const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  size_t EraseIf(MacTable::Predicate condemned);

  const Options options_;
  const uint32_t tick_seconds_;  // the table counts time in these
  const uint16_t ageing_ticks_;  // AgeLimit::kNever: never
  const Clock* const clock_;
  MacTable table_;
  mutable absl::Mutex writer_;  // serialises changes of table_
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_H_
