// Election: which of several gateways between the same VES and VLAN and the same IPoIB link does the work. Two at once would be
// a loop, in which every broadcast goes round for ever; so one is active and the others stand by.
//
// Gateways say hello to each other on the IPoIB link, in UDP datagrams to a group of their own (hello.h). One that starts, or
// whose link comes up, listens first; then it says that it would like to work, and works when for a while nobody better has
// said the same, or that it works already. The one that works goes on: a better one that comes later stands by. Two that work,
// because they could not hear each other, find out with the first hello, and the worse one stands by at once. Better is the
// one of higher priority, then of lower GID and QPN.
//
//     kDown --link up--> kListening --1 s of silence--> kCandidate --0.6 s--> kActive
//                            ^  hello of one that works, or of a better candidate: stand by
//                            |                                                     |
//                        kStandby <-------- hello of a better one that works ------+
//                   (1 s without a hello of one that works: kCandidate)
//
// The active gateway says hello five times a second, or once a second while it has heard no other gateway for 10 s. So that it
// hears them, those that listen or stand by say hello as well, without a claim; its first answer is immediate.
//
// One thread; time is the caller's.
#ifndef EOIB_GATEWAY_ELECTION_H_
#define EOIB_GATEWAY_ELECTION_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ipoib_address.h"

namespace eoib::gateway {

class Election {
 public:
  enum class State : uint8_t { kDown, kListening, kCandidate, kActive, kStandby };
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);  // between hellos
  static constexpr absl::Duration kSlowInterval = absl::Seconds(1);     // of one that is alone, or stands by
  static constexpr absl::Duration kCompany = absl::Seconds(10);         // how long one is not alone after a hello
  static constexpr absl::Duration kSilence = absl::Seconds(1);          // after which one that worked works no more
  static constexpr absl::Duration kClaim = absl::Milliseconds(600);     // how long a candidate is one

  // kNone: it listens, or stands by.
  enum class Claim : uint8_t { kCandidate, kActive, kNone };
  // What a gateway says of itself.
  struct Rank {
    uint8_t priority = 100;
    IpoibAddress address;

    bool IsBetterThan(const Rank& other) const {
      return priority != other.priority ? priority > other.priority : address.peer() < other.address.peer();
    }
    friend bool operator==(const Rank&, const Rank&) = default;
  };
  struct Hello {
    Rank from;
    Claim claim = Claim::kCandidate;
  };

  // Both sides are up: the IPoIB link and the VES. This gateway is at `rank.address` there; it was perhaps at another before.
  void OnLinkUp(const Rank& rank, absl::Time now);
  void OnLinkDown();
  // Of another gateway of the same pair.
  void OnHello(const Hello& hello, absl::Time now);
  // What is to be said now, if anything. Call it at NextDeadline.
  absl::optional<Hello> Run(absl::Time now);
  absl::Time NextDeadline() const;

  State state() const { return state_; }
  bool active() const { return state_ == State::kActive; }
  // The one that works, or that would like to and is better, if this one stands by.
  const absl::optional<Rank>& other() const { return other_; }

 private:
  void Enter(State state, absl::Time until, absl::Time next_hello);
  bool GivesWayTo(const Hello& hello) const;
  bool IsAlone(absl::Time now) const { return now >= company_until_; }
  absl::Duration Interval(absl::Time now) const;
  Claim OwnClaim() const;
  absl::optional<Hello> Say(absl::Time now);

  State state_ = State::kDown;
  Rank own_;
  absl::optional<Rank> other_;
  absl::Time until_ = absl::InfiniteFuture();  // the state, if nothing is heard
  absl::Time next_hello_ = absl::InfiniteFuture();
  absl::Time company_until_ = absl::InfinitePast();
};

const char* StateName(Election::State state);

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_H_
