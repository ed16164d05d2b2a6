// Fdb: the forwarding database of one VES on one agent: which vPort a (VID, MAC) is behind, and who decides that.
//
// Learning. An entry lives `ageing` after the MAC was last heard (IEEE 802.1Q-2018 §8.8.3), then the MAC is unknown again and
// floods. Group addresses are never learned. An entry of a stronger origin (static > manager > local learned > announced >
// remote learned) is never displaced by a weaker one; among learned entries the newest wins, which is how a MAC moves from a
// host to another; among announced ones the higher sequence number, then the lower address.
//
// Moves. A MAC that moves too often freezes at its home (move_damper.h). A sticky vPort keeps for good what was learned from
// it. What is pinned so neither moves nor ages nor is flushed or evicted; but a frame from a local port ends a freeze
// elsewhere.
//
// Room. A VES, each vPort, and the host have limits. At its own limit a vPort gives up an entry for each new one, at the VES's
// or the host's the vPort that holds most: so whoever invents source addresses soon holds most, and displaces what he brought
// himself, the newest first; the MACs that others, and that he had before, stay. What is pinned counts as its vPort's, and is
// not evicted: who has his share pinned gets no more. Static entries count, and are never refused or evicted.
//
// Threads. Find and Refresh belong to the data path: any thread, batched, no lock held by the caller. Learn and the other
// changes may come from any thread too and are serialised inside; the work of each is bounded, but for flushes, which take a
// store for each VLAN and vPort concerned.
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
#include "fdb/clock.h"
#include "fdb/cohorts.h"
#include "fdb/fdb_budget.h"
#include "fdb/fdb_event.h"
#include "fdb/fdb_key.h"
#include "fdb/mac_table.h"
#include "fdb/move_damper.h"
#include "fdb/token_bucket.h"
#include "fdb/vport.h"

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
    MoveDamper::GidOf gid_of = nullptr;  // whose claims make a MAC freeze; called with the FDB's lock held
  };
  struct VPortPolicy {
    absl::optional<size_t> limit;
    bool sticky = false;
  };

  // What became of an attempt to learn.
  enum class Learned : uint8_t {
    kNew,        // there was no entry
    kMoved,      // a learned entry was behind another vPort
    kKnown,      // the entry was right already, and was refreshed
    kOverruled,  // a stronger entry says otherwise and stays
    kPinned,     // it is sticky elsewhere, or moves too often and is at its home now
    kLimit,      // a limit
    kGroup,      // a group or zero address is nobody's source
  };
  enum class Damped : uint8_t {
    kNo,
    kFlapping,  // it moves too often, and is not frozen
    kFrozen,    // it moves too often, and was frozen just now
  };
  struct LearnResult {
    Learned what;
    VPortId previous;  // where the MAC was: kMoved, kOverruled and kPinned; else none
    Damped damped = Damped::kNo;
  };

  // Who announced an entry, and when: the sequence number of its vPort's incarnation, and its address.
  struct Claim {
    uint64_t sequence = 0;
    PeerAddress by;
  };

  struct Entry {  // a row of `fdb show`
    FdbKey key;
    VPortId vport;
    FdbOrigin origin;
    absl::Duration age;  // since last heard; zero for what does not age
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

  // Of what is learned from now on.
  void SetVPortPolicy(VPortId vport, const VPortPolicy& policy);

  // out[i] is the vPort of keys[i], or VPortId::None() if the MAC is unknown (or aged out: expiry does not wait for Age()).
  void Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const;

  // For streams of batches of Find: MacLookup(&fdb.table()).Ask(keys, fdb.Limit(), out).
  const MacTable& table() const { return table_; }
  AgeLimit Limit() const { return Limit(TickOf(clock_->Now())); }

  // The sources of a batch: keys[i] was heard from vports[i]. Entries that say so are refreshed. The indices of the others go
  // to `stale`, for Learn; returns their number. Requires vports and stale as long as keys, and fewer than 65,536 keys.
  size_t Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, absl::Span<uint16_t> stale) const;

  // `key` was heard from `vport`. `origin` is kLocalLearned or kRemoteLearned.
  LearnResult Learn(FdbKey key, VPortId vport, FdbOrigin origin);
  // The last move of `key`, made or frozen, was none: both vPorts are the same agent's.
  void ForgiveMove(FdbKey key);

  // `vport` is said to own `key`. kNew, kMoved, kKnown, kOverruled, kPinned, kLimit or kGroup.
  LearnResult Announce(FdbKey key, VPortId vport, const Claim& claim);
  // Takes that back; false if `vport` does not own it by announcement.
  bool Withdraw(FdbKey key, VPortId vport);

  // Static entries, and the manager's, neither age nor move. kInvalidArgument for a group address; kAlreadyExists if a static
  // entry of another vPort has the key, or any for the manager; kResourceExhausted if there is no memory.
  absl::Status AddStatic(FdbKey key, VPortId vport) { return AddFixed(key, vport, FdbOrigin::kStatic); }
  absl::Status AddManaged(FdbKey key, VPortId vport) { return AddFixed(key, vport, FdbOrigin::kManager); }
  absl::Status RemoveStatic(FdbKey key) { return RemoveFixed(key, FdbOrigin::kStatic); }    // kNotFound if there is none
  absl::Status RemoveManaged(FdbKey key) { return RemoveFixed(key, FdbOrigin::kManager); }  // likewise

  // Forgets learned and announced entries: all, those of one VLAN, those of one vPort; returns how many. Nobody finds them any
  // more when this returns. Pinned ones stay.
  size_t Flush();
  size_t FlushVlan(Vid vid);
  size_t FlushLearned(VPortId vport);
  // All that `vport` has, pinned and static entries too: it is going away.
  size_t FlushVPort(VPortId vport);
  // Lets go of what is pinned at `vport`, sticky or frozen; it is learned anew.
  size_t FlushSticky(VPortId vport);
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);

  // Housekeeping, in small pieces: reclaims what aged out or was flushed, ends freezes whose time is over. Call it every second
  // or so: an entry is reclaimed within a tenth of the ageing time, at least 1 and at most 30 seconds. Returns how many entries
  // it took out that had aged out.
  size_t Age();

  // Calls `visit` on all entries, in no order, with none locked for long. `visit` must not call the FDB.
  void Visit(absl::FunctionRef<void(const Entry&)> visit) const;
  // Sorted by VID, then MAC: those behind `after`, at most `most`. A walk through all of them, also for a few.
  std::vector<Entry> Dump(absl::optional<FdbKey> after = absl::nullopt, size_t most = ~size_t{0}) const;
  std::vector<Holding> Holdings() const;  // those with most dynamic entries first
  // Entries that a vPort has.
  size_t Held(VPortId vport) const;
  // Entries, without those that were flushed; those that have aged out count until they are reclaimed.
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Dynamic entries of the vPort that has most.
  size_t largest_holding() const { return largest_.load(std::memory_order_relaxed); }
  size_t memory_bytes() const { return table_.memory_bytes(); }
  // In which it counts ages.
  absl::Duration tick() const { return absl::Seconds(tick_seconds_); }
  FdbCounters counters() const;
  absl::flat_hash_map<FdbKey, MoveDamper::Frozen> frozen() const;
  // vPorts that may have no entry, and whose number must stay theirs: homes of MACs that moved lately, claimants of frozen
  // ones.
  absl::flat_hash_set<VPortId> DampedVPorts() const;
  // The last that happened: kRecentEvents until somebody watches, since a ring for whoever reads late is larger than many an
  // FDB. Take it anew after Watch: the former one gets no more.
  static constexpr size_t kRecentEvents = 32, kWatchedEvents = 8192;
  const FdbEvents& events() const { return *events_.load(std::memory_order_acquire); }
  void Watch();
  const Options& options() const { return options_; }

  // For the budget: the vPort that holds most gives up an entry, if it has at least `least` dynamic ones.
  bool EvictLargest(size_t least);

 private:
  // Frames of new sources wait for the lock, so it is held for some buckets at a time.
  static constexpr size_t kBucketsAtATime = 64;

  // How a place for a new entry was found.
  enum class Room : uint8_t { kThere, kNone, kHostSpent };
  // Learns or announces, once or, if another VES of the host had to give way first, twice.
  using Try = absl::FunctionRef<LearnResult(bool host_tried, Room* room)>;
  LearnResult MakingRoom(VPortId vport, Try attempt);

  // An entry as the writer sees it.
  struct Known {
    bool in_table = false;  // under this key, perhaps forgotten or aged out
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
  const uint32_t tick_seconds_;  // the table counts time in these
  const uint16_t ageing_ticks_;  // AgeLimit::kNever: never
  const Clock* const clock_;
  MacTable table_;
  FdbEvents recent_events_{kRecentEvents};
  std::unique_ptr<FdbEvents> watched_events_;  // from the first Watch on
  std::atomic<FdbEvents*> events_{&recent_events_};
  std::atomic<size_t> size_{0}, largest_{0};

  mutable absl::Mutex writer_;               // serialises changes of table_
  absl::Time now_ ABSL_GUARDED_BY(writer_);  // of the change under way
  uint16_t tick_ ABSL_GUARDED_BY(writer_) = 0;
  Cohorts cohorts_ ABSL_GUARDED_BY(writer_);
  MoveDamper damper_ ABSL_GUARDED_BY(writer_);
  FdbCounters counters_ ABSL_GUARDED_BY(writer_);
  absl::flat_hash_map<VPortId, VPortPolicy> policies_ ABSL_GUARDED_BY(writer_);
  absl::flat_hash_map<FdbKey, Claim> claims_ ABSL_GUARDED_BY(writer_);  // of entries in the table that were announced
  size_t budgeted_ ABSL_GUARDED_BY(writer_) = 0;                        // entries that the budget knows of
  uint32_t rooms_made_ ABSL_GUARDED_BY(writer_) = 0;
  bool sweep_pays_ ABSL_GUARDED_BY(writer_) = false;
  MacTable::Cursor evict_at_ ABSL_GUARDED_BY(writer_) = 0;
  MacTable::Cursor age_at_ ABSL_GUARDED_BY(writer_) = 0;
  absl::Time aged_ ABSL_GUARDED_BY(writer_);  // when Age was last called
  TokenBucket refusals_told_ ABSL_GUARDED_BY(writer_);
};

}  // namespace eoib

#endif  // EOIB_FDB_FDB_H_
