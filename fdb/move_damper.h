// MoveDamper: freezes MACs that move too often (RFC 7432 §15.1): a loop, a duplicate address, or an
// attacker.
//
// README.md ("Moves") says where a MAC freezes, for how long, and what never freezes. Memory is
// bounded: if more MACs move than are remembered, those with the fewest moves are forgotten first,
// and of these the ones that moved longest ago.
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
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/base/address.h"

namespace eoib {

// Call it from one thread at a time.
class MoveDamper {
 public:
  enum class Action : uint8_t {
    kOff,
    kWarn,              // the move is made and reported
    kFreeze,            // for `freeze`
    kFreezeUntilThawed  // until an operator thaws it
  };
  static constexpr int kMostMoves = 8;
  struct Options {
    Action action = Action::kFreeze;
    // 2 to kMostMoves: the last of this number of moves freezes the MAC...
    int moves = 5;
    absl::Duration window = absl::Seconds(180);  // ...if all are within this time
    absl::Duration freeze = absl::Seconds(180);
    size_t most_frozen = 1024;
    size_t most_frozen_per_gid = 64;  // of one claimant GID
    friend bool operator==(const Options&, const Options&) = default;
  };
  enum class Verdict : uint8_t {
    kMove,
    kWarn,    // it moves too often, but is moved
    kHold,    // it moves too often and is held at home; no more MACs may be frozen
    kFreeze,  // it moves too often, is held at home, and is frozen from now on
  };
  struct Place {
    VPortId vport = VPortId::None();
    bool local = false;

    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Judgement {
    Verdict verdict;
    Place home;  // for kHold and kFreeze
  };
  struct Frozen {
    VPortId at, claimant;  // its home, and the last other place from which it was heard
    Gid claimant_gid;
    absl::Time since, until;
  };
  // Returns the GID of a vPort.
  using GidOf = std::function<Gid(VPortId)>;

  // Without `gid_of` each vPort counts as a separate GID.
  explicit MoveDamper(const Options& options, GidOf gid_of = nullptr)
      : options_(options), gid_of_(std::move(gid_of)) {}

  // `key`, which is at `at`, was heard from `claimant`. Returns whether it may move. Moves between
  // two vPorts of one GID are not counted.
  Judgement OnMove(FdbKey key, Place at, Place claimant, absl::Time now);
  // `vport` left, or its MACs were flushed: it is no longer the home of any MAC.
  void ForgetHome(VPortId vport);

  bool IsFrozen(FdbKey key) const { return frozen_.contains(key); }
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);
  // The MACs whose freeze is over; the caller thaws them.
  std::vector<FdbKey> Due(absl::Time now) const;
  const absl::flat_hash_map<FdbKey, Frozen>& frozen() const { return frozen_; }
  // Calls `visit` on the vPorts that a later answer may name: homes of MACs that moved within the
  // window, and claimants of frozen ones. May visit a vPort more than once.
  void VisitVPorts(absl::Time now, absl::FunctionRef<void(VPortId)> visit) const;
  const Options& options() const { return options_; }
  // MACs that are frozen stay so, for the time that was said before.
  void SetOptions(const Options& options) { options_ = options; }

 private:
  // A MAC's home and the times of its last moves, in a ring.
  struct Mover {
    FdbKey key;
    VPortId home = VPortId::None();  // none: free
    bool home_is_local = false;
    uint8_t count = 0;  // valid entries of times[]
    uint8_t next = 0;
    std::array<absl::Time, kMostMoves> times;

    bool IsFree() const { return home.IsNone(); }
    Place Home() const { return {home, home_is_local}; }
    absl::Time Last() const {
      return times[static_cast<size_t>(next + kMostMoves - 1) % kMostMoves];
    }
    void SetHome(Place place) { home = place.vport, home_is_local = place.local; }
    void Record(absl::Time now);
  };
  static constexpr size_t kSets = 512, kWays = 8;
  using Set = std::array<Mover, kWays>;

  std::unique_ptr<Set>& SetOf(FdbKey key);
  Mover* Find(FdbKey key);
  Mover* FindOrMake(FdbKey key, absl::Time now);
  int MovesWithin(const Mover& mover, absl::Time now) const;
  void UpdateHome(Mover* mover, Place at, Place claimant, absl::Time now) const;
  bool IsOnePort(Place a, Place b) const;
  bool MayFreeze(const Gid& claimant) const;
  void Freeze(FdbKey key, const Frozen& frozen);
  void VisitMovers(absl::FunctionRef<void(Mover*)> visit) const;

  Options options_;
  const GidOf gid_of_;
  // kSets, from the first move on; null: no move in that set.
  std::vector<std::unique_ptr<Set>> movers_;
  absl::flat_hash_map<FdbKey, Frozen> frozen_;
  absl::flat_hash_map<Gid, size_t> frozen_by_;  // number of frozen MACs by claimant GID
};

}  // namespace eoib

#endif  // EOIB_FDB_MOVE_DAMPER_H_
