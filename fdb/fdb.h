// Fdb: the forwarding database of one VES on one agent. It maps (VID, MAC) to a vPort.
//
// Learning. An entry lives `ageing` after the MAC was last heard (IEEE 802.1Q-2018 §8.8.3); then the MAC is unknown again and
// floods. Group addresses are never learned. A weaker origin never displaces a stronger one (static > manager > local learned
// > announced > remote learned). Among learned entries the newest wins, so a MAC can move from host to host. Among announced
// ones the higher sequence number wins, then the lower address.
//
// Moves. A MAC that moves too often freezes at its home (move_damper.h). A sticky vPort keeps what was learned from it. Such
// pinned entries do not move, age out or get evicted, and an ordinary flush leaves them. A frame from a local port ends a
// freeze elsewhere.
//
// Room. A VES, each vPort and the host have limits. A vPort at its own limit gives up one of its entries for each new one; at
// the limit of the VES or the host, the vPort that holds most does, its newest entry first. So a sender that invents source
// addresses displaces its own. Pinned entries count as their vPort's share and are not evicted. Static entries count, but are
// never refused or evicted. README.md ("Eviction") has the details.
//
// Threads. Find and Refresh belong to the data path: any thread, in batches, without a lock held by the caller. Learn and the
// other changes may come from any thread too; a mutex serialises them. The work of each is bounded, except for flushes, which
// take one store for each VLAN and vPort concerned.
#ifndef EOIB_FDB_FDB_H_
#define EOIB_FDB_FDB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
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
#include "fdb/cohorts.h"
#include "fdb/fdb_budget.h"
#include "fdb/fdb_event.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_table.h"
#include "fdb/move_damper.h"
#include "fdb/vport.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"

namespace eoib {

// X(member, help)
#define EOIB_FDB_COUNTERS(X)                                                            \
  X(learned, "addresses learned")                                                       \
  X(moved, "addresses that moved to another vPort")                                     \
  X(aged, "addresses not heard for the ageing time")                                    \
  X(flushed, "addresses flushed")                                                       \
  X(evicted, "addresses that made room for others, at a limit")                         \
  X(learn_limited, "addresses not learned because of a limit")                          \
  X(announced, "addresses first known by an announcement")                              \
  X(overruled, "addresses heard elsewhere than static, manager's or local entries say") \
  X(sticky_refused, "addresses heard elsewhere than at the vPort that keeps them")      \
  X(frozen_refused, "addresses heard elsewhere than where they are frozen")             \
  X(froze, "addresses frozen because they moved too often")                             \
  X(flapping, "addresses that moved too often and were not frozen")                     \
  X(thawed, "frozen addresses that may move again")                                     \
  X(announce_refused, "announcements that a stronger entry or a better claim stood against")

struct FdbCounters {
#define EOIB_X(member, help) uint64_t member = 0;
  EOIB_FDB_COUNTERS(EOIB_X)
#undef EOIB_X
};

class Fdb {
 public:
  struct Options {
    // Zero: learned entries never age. Above eight hours an entry may live one part in 28,800 longer.
    absl::Duration ageing = absl::Seconds(300);
    size_t limit = 65536;
    size_t vport_limit = ~size_t{0};  // of each vPort, unless SetVPortPolicy says otherwise
    MoveDamper::Options damping = {};
    FdbBudget* budget = nullptr;         // the host's; outlives the FDB
    MoveDamper::GidOf gid_of = nullptr;  // the claimant's GID, for the damper; called with the FDB's lock held
  };
  struct VPortPolicy {
    absl::optional<size_t> limit;
    bool sticky = false;
  };

  // The result of Learn and Announce.
  enum class Learned : uint8_t {
    kNew,        // there was no entry
    kMoved,      // the entry was behind another vPort
    kKnown,      // the entry was right already, and was refreshed
    kOverruled,  // a stronger entry names another vPort and stays
    kPinned,     // it is sticky elsewhere, or it moves too often and was held at its home
    kLimit,      // a limit left no room
    kGroup,      // a group or zero address is not a valid source
  };
  enum class Damped : uint8_t {
    kNo,
    kFlapping,  // it moves too often, but is not frozen
    kFrozen,    // it moves too often, and has just been frozen
  };
  struct LearnResult {
    Learned what;
    VPortId previous;  // where the MAC was, for kMoved, kOverruled and kPinned; else none
    Damped damped = Damped::kNo;
  };

  // The claim behind an announced entry: its sequence number, and the address of the announcer.
  struct Claim {
    uint64_t sequence = 0;
    PeerAddress by;
  };

  struct Entry {  // a row of `fdb show`
    FdbKey key;
    VPortId vport;
    FdbOrigin origin;
    absl::Duration age;  // since last heard; zero for entries that do not age
    bool sticky = false;
    bool frozen = false;
  };
  struct Holding {  // a row of `fdb stats`
    VPortId vport;
    size_t dynamic, pinned, fixed, limit;
  };

  Fdb(const Options& options, const Clock* clock);
  ~Fdb();
  Fdb(const Fdb&) = delete;
  Fdb& operator=(const Fdb&) = delete;

  // Applies to entries learned from now on.
  void SetVPortPolicy(VPortId vport, const VPortPolicy& policy);

  // out[i] is the vPort of keys[i], or VPortId::None() if the MAC is unknown or aged out (expiry does not wait for Age()).
  void Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const;

  // For readers with a stream of batches: MacLookup(&fdb.table()).Ask(keys, fdb.Limit(), out).
  const MacTable& table() const { return table_; }
  AgeLimit Limit() const { return Limit(TickOf(clock_->Now())); }

  // The sources of a batch: keys[i] was heard from vports[i]. Refreshes the entries that agree, and writes the indices of the
  // others to `stale`, for Learn. Returns their number. Requires vports and stale as long as keys, and fewer than 65,536 keys.
  size_t Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, absl::Span<uint16_t> stale) const;

  // `key` was heard from `vport`. `origin` is kLocalLearned or kRemoteLearned.
  LearnResult Learn(FdbKey key, VPortId vport, FdbOrigin origin);
  // Takes back the last move of `key`, and a freeze that it caused: both vPorts turned out to be of the same agent.
  void ForgiveMove(FdbKey key);

  // An announcement says that `key` is behind `vport`. Returns kNew, kMoved, kKnown, kOverruled, kPinned, kLimit or kGroup.
  LearnResult Announce(FdbKey key, VPortId vport, const Claim& claim);
  // Withdraws the announcement. False if the entry of `key` is not an announced one of `vport`.
  bool Withdraw(FdbKey key, VPortId vport);

  // Static entries, and the manager's, neither age nor move. kInvalidArgument for a group or zero address; kAlreadyExists if
  // another vPort has a static entry for the key, or for the manager if there is any static one; kResourceExhausted if there
  // is no memory.
  absl::Status AddStatic(FdbKey key, VPortId vport) { return AddFixed(key, vport, FdbOrigin::kStatic); }
  absl::Status AddManaged(FdbKey key, VPortId vport) { return AddFixed(key, vport, FdbOrigin::kManager); }
  absl::Status RemoveStatic(FdbKey key) { return RemoveFixed(key, FdbOrigin::kStatic); }    // kNotFound if there is none
  absl::Status RemoveManaged(FdbKey key) { return RemoveFixed(key, FdbOrigin::kManager); }  // likewise

  // Flush learned and announced entries: all, those of one VLAN, those of one vPort. Return how many. When the call returns,
  // no lookup finds them. Pinned entries stay.
  size_t Flush();
  size_t FlushVlan(Vid vid);
  size_t FlushLearned(VPortId vport);
  // Flushes all entries of `vport`, pinned and static ones too, because the vPort is going away.
  size_t FlushVPort(VPortId vport);
  // Flushes the pinned entries of `vport`, sticky or frozen. Their MACs can then be learned again.
  size_t FlushSticky(VPortId vport);
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);

  // Housekeeping, in small pieces: reclaims entries that aged out or were flushed, and ends freezes that are due. Call it
  // about once a second. An entry is reclaimed within a tenth of the ageing time (at least 1, at most 30 seconds). Returns how
  // many aged-out entries it removed.
  size_t Age();

  // Calls `visit` on all entries, in no order, and never holds the lock for long. `visit` must not call the FDB.
  void Visit(absl::FunctionRef<void(const Entry&)> visit) const;
  // At most `most` entries after `after`, sorted by VID, then MAC. Walks through the whole table, even for a few.
  std::vector<Entry> Dump(absl::optional<FdbKey> after = absl::nullopt, size_t most = ~size_t{0}) const;
  std::vector<Holding> Holdings() const;  // the vPort with most dynamic entries first
  // The number of entries of a vPort.
  size_t Held(VPortId vport) const;
  // The number of entries. Flushed ones do not count; aged-out ones count until they are reclaimed.
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // The number of dynamic entries of the vPort that has most.
  size_t largest_holding() const { return largest_.load(std::memory_order_relaxed); }
  size_t memory_bytes() const { return table_.memory_bytes(); }
  // The unit in which it counts ages.
  absl::Duration tick() const { return absl::Seconds(tick_seconds_); }
  FdbCounters counters() const;
  absl::flat_hash_map<FdbKey, MoveDamper::Frozen> frozen() const;
  // vPorts whose number must not be reused although they may have no entry: homes of MACs that moved lately, and claimants of
  // frozen ones.
  absl::flat_hash_set<VPortId> DampedVPorts() const;
  // The ring of events: small until Watch is called, because a large one is bigger than many an FDB. Call events() again after
  // Watch: the former ring gets no more events.
  static constexpr size_t kRecentEvents = 32, kWatchedEvents = 8192;
  const FdbEvents& events() const { return *events_.load(std::memory_order_acquire); }
  void Watch();
  const Options& options() const { return options_; }

  // For the budget: evicts an entry of the vPort that holds most, if it has at least `least` dynamic ones.
  bool EvictLargest(size_t least);

 private:
  // Frames of new sources wait for the lock, so walks release it after so many buckets.
  static constexpr size_t kBucketsAtATime = 64;

  // Whether there is room for a new entry. kHostSpent: the host's budget is used up, and another VES may have to evict.
  enum class Room : uint8_t { kThere, kNone, kHostSpent };
  // One attempt to learn or announce. MakingRoom calls it a second time if the host's budget had to make room first.
  using Try = absl::FunctionRef<LearnResult(bool host_tried, Room* room)>;
  LearnResult MakingRoom(VPortId vport, Try attempt);

  // An entry as the writer finds it.
  struct Known {
    bool in_table = false;  // the table has the key; the entry may be forgotten or aged out
    bool live = false;
    MacEntry entry;
    VPortId vport = VPortId::None();  // none: forgotten
  };

  uint16_t TickOf(absl::Time time) const;
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  AgeLimit Limit(uint16_t now) const { return {now, ageing_ticks_}; }
  static bool IsLive(const MacEntry& entry, AgeLimit limit) { return !entry.Ages() || !limit.IsOver(entry.last_seen); }

  Known Look(FdbKey key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool Write(FdbKey key, const Known& known, VPortId vport, MacEntry entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void Erase(FdbKey key, const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void Leave(FdbKey key, const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void Reclaim(FdbKey key, const Known& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void CountAged(FdbKey key, VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  LearnResult LearnOnce(FdbKey key, VPortId vport, FdbOrigin origin, bool host_tried, Room* room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  LearnResult AnnounceOnce(FdbKey key, VPortId vport, const Claim& claim, bool host_tried, Room* room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  LearnResult LearnOver(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  LearnResult Move(FdbKey key, const Known& known, VPortId vport, FdbOrigin origin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  LearnResult Refuse(FdbKey key, const Known& known, VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  MacEntry NewEntry(VPortId vport, FdbOrigin origin) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool Beats(FdbKey key, const Claim& claim) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool HoldAtHome(FdbKey key, const Known& known, VPortId claimant, const MoveDamper::Judgement& judged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void TellHeld(FdbKey key, VPortId from, VPortId claimant, const MoveDamper::Judgement& judged)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool ThawLocked(FdbKey key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  absl::Status AddFixed(FdbKey key, VPortId vport, FdbOrigin origin);
  absl::Status RemoveFixed(FdbKey key, FdbOrigin origin);

  size_t FlushOf(VPortId vport, Cohorts::Kinds kinds);

  size_t LimitOf(VPortId vport) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  Room MakeRoom(VPortId vport, bool host_tried) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool IsCrowded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool MakeRoomAt(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void SweepSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  size_t ShareOf(VPortId vport) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool EvictFor(VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  bool EvictFrom(VPortId victim, VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  size_t Sweep(MacTable::Cursor* cursor, size_t buckets) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void CountFlushed(size_t count, FdbEvent::Scope scope, FdbKey key, VPortId vport) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);
  void Tell(FdbEvent::Kind kind, FdbKey key, VPortId from, VPortId to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_);

  const Options options_;
  const uint32_t tick_seconds_;  // unit of the table's times
  const uint16_t ageing_ticks_;  // AgeLimit::kNever: never
  const Clock* const clock_;
  MacTable table_;
  FdbEvents recent_events_{kRecentEvents};
  std::unique_ptr<FdbEvents> watched_events_;  // from the first Watch on
  std::atomic<FdbEvents*> events_{&recent_events_};
  std::atomic<size_t> size_{0}, largest_{0};

  mutable absl::Mutex writer_;               // serialises changes of table_
  absl::Time now_ ABSL_GUARDED_BY(writer_);  // time of the change in progress
  uint16_t tick_ ABSL_GUARDED_BY(writer_) = 0;
  Cohorts cohorts_ ABSL_GUARDED_BY(writer_);
  MoveDamper damper_ ABSL_GUARDED_BY(writer_);
  FdbCounters counters_ ABSL_GUARDED_BY(writer_);
  absl::flat_hash_map<VPortId, VPortPolicy> policies_ ABSL_GUARDED_BY(writer_);
  absl::flat_hash_map<FdbKey, Claim> claims_ ABSL_GUARDED_BY(writer_);  // of the announced entries in the table
  size_t budgeted_ ABSL_GUARDED_BY(writer_) = 0;                        // entries reported to the budget
  uint32_t rooms_made_ ABSL_GUARDED_BY(writer_) = 0;
  bool sweep_pays_ ABSL_GUARDED_BY(writer_) = false;
  MacTable::Cursor evict_at_ ABSL_GUARDED_BY(writer_) = 0;
  MacTable::Cursor age_at_ ABSL_GUARDED_BY(writer_) = 0;
  absl::Time aged_ ABSL_GUARDED_BY(writer_);  // when Age was last called
  TokenBucket refusals_told_ ABSL_GUARDED_BY(writer_);
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_H_
