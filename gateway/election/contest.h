// Contest: one gateway's state in the contest for one place of which one gateway at a time is the
// active one: an IPoIB link's (election.h), or a VLAN's of an uplink (uplink_election.h). Both
// elections have these rules; the hellos, their times and the ranks are their own.
//
//     kDown --up--> kListening --in time--> kCandidate --no objection in time--> kActive
//     any but kActive --hello of an active gateway--> kStandby
//     kListening, kCandidate --hello of a better candidate--> kStandby
//     kActive --hello of a better active gateway--> kStandby
//     kStandby --no such hello in time--> kCandidate
//     any --the active gateway leaves the place to this one--> kSucceeding --in time--> kActive
#ifndef EOIB_GATEWAY_ELECTION_CONTEST_H_
#define EOIB_GATEWAY_ELECTION_CONTEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace eoib::gateway {

class Contest {
 public:
  enum class State : uint8_t { kDown, kListening, kStandby, kCandidate, kSucceeding, kActive };
  // The consequence of a hello of another gateway.
  enum class Reaction : uint8_t { kNone, kObject, kGiveWay };

  State state() const { return state_; }
  absl::Time until() const { return until_; }  // when Advance is due

  void Enter(State state, absl::Time until = absl::InfiniteFuture()) {
    state_ = state;
    until_ = until;
  }
  // After a hello of a gateway that is active, or else a candidate. kObject: say hello at once, the
  // other one does not know of this one. kGiveWay: call StandBy.
  Reaction OnHello(bool other_is_active, bool other_is_better) const {
    const bool holds = state_ == State::kActive || state_ == State::kSucceeding;
    const bool gives_way =
        other_is_active ? state_ != State::kActive || other_is_better : !holds && other_is_better;
    if (gives_way) return Reaction::kGiveWay;
    return holds || state_ == State::kCandidate ? Reaction::kObject : Reaction::kNone;
  }
  // A gateway that listens does so to the end, whoever speaks.
  void StandBy(absl::Time until) {
    Enter(State::kStandby, state_ == State::kListening ? std::max(until_, until) : until);
  }
  // Enters the next state if this one is over; a candidate waits for objections for `claim`. True
  // if it did.
  bool Advance(absl::Time now, absl::Duration claim) {
    if (now < until_) return false;
    const bool heard_nobody = state_ == State::kListening || state_ == State::kStandby;
    heard_nobody ? Enter(State::kCandidate, now + claim) : Enter(State::kActive);
    return true;
  }

 private:
  State state_ = State::kDown;
  absl::Time until_ = absl::InfiniteFuture();  // that of kDown and kActive
};

inline const char* StateName(Contest::State state) {
  constexpr const char* kNames[] = {"down",      "listening",  "standby",
                                    "candidate", "succeeding", "active"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_CONTEST_H_
