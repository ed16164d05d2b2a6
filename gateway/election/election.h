// Election: decides which of several gateways between the same VES and VLAN and the same IPoIB link
// is active, by hellos on that link (hello.h). It is a Contest that waits 1 s for hellos and 0.6 s
// for objections. README.md, "Which one works", has the rules.
//
// One thread; the caller supplies the time.
#ifndef EOIB_GATEWAY_ELECTION_ELECTION_H_
#define EOIB_GATEWAY_ELECTION_ELECTION_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/election/contest.h"
#include "vswitch/wire/ip/ipoib_address.h"

namespace eoib::gateway {

class Election {
 public:
  using State = Contest::State;
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);  // between hellos
  // While alone and active, or standing by.
  static constexpr absl::Duration kSlowInterval = absl::Seconds(1);
  // A gateway is not alone for this time after a hello.
  static constexpr absl::Duration kCompany = absl::Seconds(10);
  // Then the active gateway counts as gone.
  static constexpr absl::Duration kSilence = absl::Seconds(1);
  // A candidate waits this time for objections.
  static constexpr absl::Duration kClaim = absl::Milliseconds(600);

  // The values are those of a hello. kNone: the gateway listens or stands by.
  enum class Claim : uint8_t { kCandidate = 1, kActive = 2, kNone = 3 };
  // A gateway's identity in the election.
  struct Rank {
    uint8_t priority = 100;
    IpoibAddress address;

    bool IsBetterThan(const Rank& other) const {
      return priority != other.priority ? priority > other.priority
                                        : address.peer() < other.address.peer();
    }
    friend bool operator==(const Rank&, const Rank&) = default;
  };
  struct Hello {
    Rank from;
    Claim claim = Claim::kCandidate;
  };

  // Both sides are up: the IPoIB link and the VES. `rank.address` is this gateway's address on the
  // link; it may be a new one.
  void OnLinkUp(const Rank& rank, absl::Time now);
  void OnLinkDown();
  // For the next election: one that is active goes on.
  void SetPriority(uint8_t priority) { own_.priority = priority; }
  // A hello of another gateway of the same pair.
  void OnHello(const Hello& hello, absl::Time now);
  // Returns the hello that is due now, if any. Call it at NextDeadline.
  absl::optional<Hello> Run(absl::Time now);
  absl::Time NextDeadline() const;

  State state() const { return contest_.state(); }
  bool active() const { return state() == State::kActive; }
  // While this gateway stands by: the active gateway, or the better candidate.
  const absl::optional<Rank>& other() const { return other_; }

 private:
  bool IsAlone(absl::Time now) const { return now >= company_until_; }
  absl::Duration Interval(absl::Time now) const;
  Claim OwnClaim() const;
  absl::optional<Hello> Say(absl::Time now);

  Contest contest_;
  Rank own_;
  absl::optional<Rank> other_;
  absl::Time next_hello_ = absl::InfiniteFuture();
  absl::Time company_until_ = absl::InfinitePast();
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_ELECTION_ELECTION_H_
