#include "gateway/election.h"

#include <algorithm>

namespace eoib::gateway {

const char* StateName(Election::State state) {
  switch (state) {
    case Election::State::kDown:
      return "down";
    case Election::State::kListening:
      return "listening";
    case Election::State::kCandidate:
      return "candidate";
    case Election::State::kActive:
      return "active";
    case Election::State::kStandby:
      return "standby";
  }
  return "?";
}

void Election::Enter(State state, absl::Time until) {
  state_ = state;
  until_ = until;
  next_hello_ = absl::InfiniteFuture();
  if (state != State::kStandby) other_.reset();
}

void Election::OnLinkUp(const Rank& rank, absl::Time now) {
  own_ = rank;
  Enter(State::kListening, now + kSilence);
}

void Election::OnLinkDown() { Enter(State::kDown, absl::InfiniteFuture()); }

// A candidate gives way to one that works and to a better candidate; one that works to a better one that does.
void Election::OnHello(const Hello& hello, absl::Time now) {
  if (state_ == State::kDown || hello.from.address == own_.address) return;
  const bool better = hello.from.IsBetterThan(own_);
  const bool gives_way = active() ? hello.active && better : hello.active || better;
  if (!gives_way) {
    if (state_ == State::kCandidate || active()) next_hello_ = now;  // it does not know of us yet
    return;
  }
  Enter(State::kStandby, now + kSilence);
  other_ = hello.from;
}

absl::optional<Election::Hello> Election::Say(absl::Time now) {
  if (now < next_hello_) return absl::nullopt;
  next_hello_ = now + kInterval;
  return Hello{own_, active()};
}

absl::optional<Election::Hello> Election::Run(absl::Time now) {
  if (now >= until_) {
    const bool claimed = state_ == State::kCandidate;
    Enter(claimed ? State::kActive : State::kCandidate, claimed ? absl::InfiniteFuture() : now + kClaim);
    next_hello_ = now;
  }
  return Say(now);
}

absl::Time Election::NextDeadline() const { return std::min(until_, next_hello_); }

}  // namespace eoib::gateway
