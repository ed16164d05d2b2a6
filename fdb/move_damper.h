// MoveDamper: freezes MACs that move too often.
//
// A MAC that is learned in two places in turn is a loop behind two vPorts, a duplicate, or a thief's; a guest that migrates
// moves once. As RFC 7432 §15.1 has it for EVPN: so many moves within so much time, and the MAC freezes, for a time or until an
// operator clears it.
//
// It freezes at its home: the place where it last stayed for a whole window without moving, else where it was first learned.
// The place before the last move will not do: two thieves who take turns could choose it.
//
// A local port is stronger evidence than a history of remote places. A home at a local port follows its station to another
// local port. A MAC whose home is remote, and that moved to or from a local port last, does not freeze: that would keep a
// station away from its own port.
//
// What is remembered is bounded: of so many MACs that moved lately, and so many frozen ones, of each claimant GID and of all.
// If more move at a time, those with the fewest moves are forgotten first, and of these the ones that moved longest ago. Beyond
// the frozen ones a MAC is held: each move of it is judged, and not made while there are too many.
#ifndef EOIB_FDB_MOVE_DAMPER_H_
#define EOIB_FDB_MOVE_DAMPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "fdb/address.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"

namespace eoib {

// One thread at a time.
class MoveDamper {
 public:
  enum class Action : uint8_t {
    kOff,
    kWarn,              // the move is made, and reported
    kFreeze,            // for `freeze`
    kFreezeUntilThawed  // by an operator
  };
  static constexpr int kMostMoves = 8;
  struct Options {
    Action action = Action::kFreeze;
    int moves = 5;                               // 2 to kMostMoves: with the last of so many...
    absl::Duration window = absl::Seconds(180);  // ...within this
    absl::Duration freeze = absl::Seconds(180);
    size_t most_frozen = 1024;
    size_t most_frozen_per_gid = 64;  // of one claimant GID
  };
  enum class Verdict : uint8_t {
    kMove,
    kWarn,    // it moves too often, and is moved all the same
    kHold,    // it moves too often, and goes home; as many are frozen as may be
    kFreeze,  // it moves too often, goes home, and is frozen from now on
  };
  struct Place {
    VPortId vport = VPortId::None();
    bool local = false;

    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Judgement {
    Verdict verdict;
    Place home;  // kHold and kFreeze
  };
  struct Frozen {
    VPortId at, claimant;  // its home, and the last other place that it was heard from
    Gid claimant_gid;
    absl::Time since, until;
  };
  // The GID of a vPort.
  using GidOf = std::function<Gid(VPortId)>;

  // Without `gid_of` each vPort counts as a GID of its own.
  explicit MoveDamper(const Options& options, GidOf gid_of = nullptr) : options_(options), gid_of_(std::move(gid_of)) {}

  // `key`, which is at `at`, was heard from `claimant`: whether it may move.
  Judgement OnMove(FdbKey key, Place at, Place claimant, absl::Time now);
  // The last move of `key` was none: what it moved to is where it was.
  void Forgive(FdbKey key);
  // `vport` left, or its MACs were flushed: it is no MAC's home any more.
  void ForgetHome(VPortId vport);

  bool IsFrozen(FdbKey key) const { return frozen_.contains(key); }
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);
  // Those whose time is over, and are to be thawed.
  std::vector<FdbKey> Due(absl::Time now) const;
  const absl::flat_hash_map<FdbKey, Frozen>& frozen() const { return frozen_; }
  // Calls `visit` on the vPorts that a later answer may name: homes of MACs that moved within the window, claimants of frozen
  // ones. Some come more than once.
  void VisitVPorts(absl::Time now, absl::FunctionRef<void(VPortId)> visit) const;
  const Options& options() const { return options_; }

 private:
  // A MAC's home and last moves, of which the oldest is overwritten.
  struct Mover {
    FdbKey key;
    VPortId home = VPortId::None();  // none: free
    bool home_is_local = false;
    uint8_t count = 0;  // of times[] that count
    uint8_t next = 0;
    std::array<absl::Time, kMostMoves> times;

    bool IsFree() const { return home.IsNone(); }
    Place Home() const { return {home, home_is_local}; }
    absl::Time Last() const { return times[static_cast<size_t>(next + kMostMoves - 1) % kMostMoves]; }
    void SetHome(Place place) { home = place.vport, home_is_local = place.local; }
    void Note(absl::Time now);
  };
  static constexpr size_t kSets = 512, kWays = 8;
  using Set = std::array<Mover, kWays>;

  std::unique_ptr<Set>& SetOf(FdbKey key);
  Mover* Find(FdbKey key);
  Mover* FindOrMake(FdbKey key, absl::Time now);
  int MovesWithin(const Mover& mover, absl::Time now) const;
  void Settle(Mover* mover, Place at, Place claimant, absl::Time now) const;
  bool MayFreeze(const Gid& claimant) const;
  void Freeze(FdbKey key, const Frozen& frozen);
  void VisitMovers(absl::FunctionRef<void(Mover*)> visit) const;

  const Options options_;
  const GidOf gid_of_;
  std::vector<std::unique_ptr<Set>> movers_;  // kSets, from the first move on; null: nobody moved
  absl::flat_hash_map<FdbKey, Frozen> frozen_;
  absl::flat_hash_map<Gid, size_t> frozen_by_;  // of these, by claimant
};

}  // namespace eoib

#endif  // EOIB_FDB_MOVE_DAMPER_H_
