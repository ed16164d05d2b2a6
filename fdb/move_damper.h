// MoveDamper: freezes MACs that move too often.
//
// A MAC that is learned in two places in turn is a loop behind two vPorts, a duplicate, or somebody who takes it over; a guest
// that migrates moves once. As RFC 7432 §15.1 has it for EVPN: so many moves within so much time, and the MAC stays where it
// was before the last one, for a time or until an operator clears it.
//
// What is remembered is bounded: of so many MACs that moved lately, and so many frozen ones. If more move at a time, those with
// the fewest moves are forgotten first, and of these the ones that moved longest ago; if more freeze, they are only reported.
#ifndef EOIB_FDB_MOVE_DAMPER_H_
#define EOIB_FDB_MOVE_DAMPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
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
  };
  enum class Verdict : uint8_t { kMove, kWarn, kFreeze };
  struct Frozen {
    VPortId at, claimant;  // where it was, and where it would have moved
    absl::Time since, until;
  };

  explicit MoveDamper(const Options& options) : options_(options) {}

  // `key`, which is at `at`, was heard from `claimant`: whether it may move. At kFreeze it is frozen from now on.
  Verdict OnMove(FdbKey key, VPortId at, VPortId claimant, absl::Time now);
  // The last move of `key` was none: what it moved to is where it was.
  void Forgive(FdbKey key);

  bool IsFrozen(FdbKey key) const { return frozen_.contains(key); }
  // Ends the freeze of `key`; false if it is not frozen.
  bool Thaw(FdbKey key);
  // Those whose time is over, and are to be thawed.
  std::vector<FdbKey> Due(absl::Time now) const;
  const absl::flat_hash_map<FdbKey, Frozen>& frozen() const { return frozen_; }
  const Options& options() const { return options_; }

 private:
  // A MAC's last moves, of which the oldest is overwritten.
  struct Mover {
    FdbKey key;
    uint8_t count = 0;  // of times[] in use; 0: free
    uint8_t next = 0;
    std::array<absl::Time, kMostMoves> times;

    absl::Time Last() const { return times[static_cast<size_t>(next + kMostMoves - 1) % kMostMoves]; }
  };
  static constexpr size_t kSets = 512, kWays = 8;
  using Set = std::array<Mover, kWays>;

  std::unique_ptr<Set>& SetOf(FdbKey key);
  Mover* Find(FdbKey key);
  Mover* FindOrMake(FdbKey key, absl::Time now);
  int MovesWithin(const Mover& mover, absl::Time now) const;

  const Options options_;
  std::vector<std::unique_ptr<Set>> movers_;  // kSets, from the first move on; null: nobody moved
  absl::flat_hash_map<FdbKey, Frozen> frozen_;
};

}  // namespace eoib

#endif  // EOIB_FDB_MOVE_DAMPER_H_
