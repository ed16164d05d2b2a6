#include "gateway/election/election.h"

#include <algorithm>

namespace eoib::gateway {

void Election::OnLinkUp(const Rank& rank, absl::Time now) {
  own_ = rank;
  other_.reset();
  company_until_ = absl::InfinitePast();
  contest_.Enter(State::kListening, now + kSilence);
  next_hello_ = now;
}

void Election::OnLinkDown() {
  other_.reset();
  contest_.Enter(State::kDown);
  next_hello_ = absl::InfiniteFuture();
}

void Election::OnHello(const Hello& hello, absl::Time now) {
  if (state() == State::kDown || hello.from.address == own_.address) return;
  bool says_hello = IsAlone(now);  // then the other gateway may not know of this one
  company_until_ = now + kCompany;
  const Contest::Reaction reaction =
      hello.claim == Claim::kNone
          ? Contest::Reaction::kNone
          : contest_.OnHello(hello.claim == Claim::kActive, hello.from.IsBetterThan(own_));
  if (reaction == Contest::Reaction::kGiveWay) {
    // A gateway that begins to stand by says hello at once: the other one learns that it is not
    // alone.
    says_hello = state() != State::kStandby;
    contest_.StandBy(now + kSilence);
    other_ = hello.from;
  }
  if (says_hello || reaction == Contest::Reaction::kObject) next_hello_ = now;
}

Election::Claim Election::OwnClaim() const {
  if (active()) return Claim::kActive;
  return state() == State::kCandidate ? Claim::kCandidate : Claim::kNone;
}

absl::Duration Election::Interval(absl::Time now) const {
  const bool slow = state() == State::kStandby || (active() && IsAlone(now));
  return slow ? kSlowInterval : kInterval;
}

absl::optional<Election::Hello> Election::Say(absl::Time now) {
  if (now < next_hello_) return absl::nullopt;
  next_hello_ = now + Interval(now);
  return Hello{own_, OwnClaim()};
}

absl::optional<Election::Hello> Election::Run(absl::Time now) {
  if (contest_.Advance(now, kClaim)) {
    other_.reset();
    next_hello_ = now;
  }
  return Say(now);
}

absl::Time Election::NextDeadline() const { return std::min(contest_.until(), next_hello_); }

}  // namespace eoib::gateway
