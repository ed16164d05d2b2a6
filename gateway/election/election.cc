#include "gateway/election/election.h"

#include <algorithm>

namespace eoib::gateway {

const char* StateName(Election::State state) {
  constexpr const char* kNames[] = {"down", "listening", "candidate", "active", "standby"};
  return kNames[static_cast<size_t>(state)];
}

void Election::Enter(State state, absl::Time until, absl::Time next_hello) {
  state_ = state;
  until_ = until;
  next_hello_ = next_hello;
  if (state != State::kStandby) other_.reset();
}

void Election::OnLinkUp(const Rank& rank, absl::Time now) {
  own_ = rank;
  company_until_ = absl::InfinitePast();
  Enter(State::kListening, now + kSilence, now);
}

void Election::OnLinkDown() { Enter(State::kDown, absl::InfiniteFuture(), absl::InfiniteFuture()); }

// A candidate gives way to an active gateway and to a better candidate; an active gateway only to a
// better active one.
bool Election::GivesWayTo(const Hello& hello) const {
  const bool better = hello.from.IsBetterThan(own_);
  if (active()) return hello.claim == Claim::kActive && better;
  return hello.claim == Claim::kActive || (hello.claim == Claim::kCandidate && better);
}

void Election::OnHello(const Hello& hello, absl::Time now) {
  if (state_ == State::kDown || hello.from.address == own_.address) return;
  const bool was_alone = IsAlone(now);
  company_until_ = now + kCompany;
  if (GivesWayTo(hello)) {
    // A gateway that begins to stand by says hello at once: the other one learns that it is not
    // alone.
    Enter(State::kStandby, now + kSilence, state_ == State::kStandby ? next_hello_ : now);
    other_ = hello.from;
    return;
  }
  const bool contends = hello.claim != Claim::kNone && (state_ == State::kCandidate || active());
  if (was_alone || contends) next_hello_ = now;  // the other gateway may not know of this one
}

Election::Claim Election::OwnClaim() const {
  if (active()) return Claim::kActive;
  return state_ == State::kCandidate ? Claim::kCandidate : Claim::kNone;
}

absl::Duration Election::Interval(absl::Time now) const {
  const bool slow = state_ == State::kStandby || (active() && IsAlone(now));
  return slow ? kSlowInterval : kInterval;
}

absl::optional<Election::Hello> Election::Say(absl::Time now) {
  if (now < next_hello_) return absl::nullopt;
  next_hello_ = now + Interval(now);
  return Hello{own_, OwnClaim()};
}

absl::optional<Election::Hello> Election::Run(absl::Time now) {
  if (now >= until_) {
    const bool claimed = state_ == State::kCandidate;
    Enter(claimed ? State::kActive : State::kCandidate,
          claimed ? absl::InfiniteFuture() : now + kClaim, now);
  }
  return Say(now);
}

absl::Time Election::NextDeadline() const { return std::min(until_, next_hello_); }

}  // namespace eoib::gateway
