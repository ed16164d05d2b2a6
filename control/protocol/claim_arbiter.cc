#include "control/protocol/claim_arbiter.h"

#include <algorithm>
#include <limits>

namespace eoib {
namespace {

constexpr absl::Duration kSweep = absl::Seconds(5);

// The sequence number that beats `sequence`. The last one stays, and then the lower agent id holds.
uint32_t Next(uint32_t sequence) { return sequence == std::numeric_limits<uint32_t>::max() ? sequence : sequence + 1; }

}  // namespace

bool ClaimArbiter::HasStopped(FdbKey key) const {
  const auto dispute = disputes_.find(key);
  return dispute != disputes_.end() && clock_->Now() < dispute->second.stopped_until;
}

bool ClaimArbiter::IsOver(const Dispute& dispute) const {
  const absl::Time now = clock_->Now();
  return now >= dispute.stopped_until && now - dispute.last > kWindow;
}

ClaimArbiter::Dispute& ClaimArbiter::DisputeOver(FdbKey key) {
  Dispute& dispute = disputes_[key];
  if (IsOver(dispute)) dispute = Dispute();
  dispute.last = clock_->Now();
  return dispute;
}

bool ClaimArbiter::Claim(FdbKey key, uint16_t vport, bool sticky, uint32_t least) {
  if (HasStopped(key)) return false;
  const absl::optional<MacClaim> ours = claims_.Of(key, own_->id());
  if (ours) {  // it holds: a claim that does not is dropped at once
    own_->SetMac(key, {vport, ours->sequence, ours->sticky});
    return true;
  }
  const absl::optional<MacClaim> holder = claims_.Best(key);
  const MacClaim claim{own_->id(), std::max(least, Next(holder ? holder->sequence : 0)), sticky};
  if (holder) {
    if (holder->sticky || !claim.Beats(*holder)) return false;  // a sticky one is given up, or lost on a tie, but not taken
    Dispute& dispute = DisputeOver(key);
    if (dispute.losses.empty()) dispute.we_came_later = true;  // else the MAC was ours before
  }
  own_->SetMac(key, {vport, claim.sequence, sticky});
  Accept(key, claim);
  return true;
}

void ClaimArbiter::Release(FdbKey key) {
  if (!claims_.Of(key, own_->id())) return;
  own_->RemoveMac(key);
  if (claims_.Remove(key, own_->id())) Report(key);
}

void ClaimArbiter::SetRemote(FdbKey key, const MacClaim& claim) {
  const absl::optional<MacClaim> holder = claims_.BestBut(key, claim.agent);
  if (holder && claim.sticky == holder->sticky && claim.sequence > holder->sequence &&
      claim.sequence - holder->sequence > kLargestJump) {
    if (holder->agent != own_->id()) Inquire(key, holder->agent, claim);  // else we would answer that we have it
    return;
  }
  const auto question = questions_.find(key);
  if (question != questions_.end() && question->second.challenger && question->second.challenger->agent == claim.agent) {
    questions_.erase(question);  // that claim is replaced
  }
  Accept(key, claim);
}

// Asks the holder, several times because a message may be lost. A further challenger does not prolong the holder's time.
void ClaimArbiter::Inquire(FdbKey key, const AgentId& holder, const absl::optional<MacClaim>& challenger) {
  const auto asked = questions_.find(key);
  if (asked != questions_.end() && asked->second.holder == holder) {
    absl::optional<MacClaim>& first = asked->second.challenger;
    if (challenger && (!first || first->agent == challenger->agent || challenger->Beats(*first))) first = challenger;
    return;
  }
  if (asked == questions_.end() && questions_.size() >= kMaxQuestions) return;
  const absl::Time now = clock_->Now();
  questions_[key] = {holder, challenger, now + kPatience, now + kAskEvery};
  ask_(holder, key);
}

void ClaimArbiter::RemoveRemote(FdbKey key, const AgentId& agent) {
  const auto unanswered = unanswered_.find(key);
  if (unanswered != unanswered_.end() && unanswered->second.holder == agent) unanswered_.erase(unanswered);
  const auto question = questions_.find(key);
  if (question != questions_.end() && question->second.holder == agent) {
    Decide(key);
    return;
  }
  if (question != questions_.end() && question->second.challenger && question->second.challenger->agent == agent) {
    questions_.erase(question);
  }
  if (claims_.Remove(key, agent)) Report(key);
}

// The holder that was asked does not have the MAC any more.
void ClaimArbiter::Decide(FdbKey key) {
  const Question question = questions_.at(key);
  questions_.erase(key);
  bool changed = claims_.Remove(key, question.holder);
  if (question.challenger) changed |= claims_.Set(key, *question.challenger);
  if (changed) Report(key);
}

void ClaimArbiter::NoteUnanswered(FdbKey key) {
  if (unanswered_.size() >= kMaxQuestions) return;
  unanswered_[key] = {questions_.at(key).holder, 0, clock_->Now() + kAskAgain};
}

// The answer gives the claim back.
void ClaimArbiter::AskAgain() {
  const absl::Time now = clock_->Now();
  absl::erase_if(unanswered_, [this, now](auto& entry) {
    auto& [key, unanswered] = entry;
    if (claims_.Of(key, unanswered.holder) || unanswered.asked == kMostAskedAgain) return true;
    if (now < unanswered.ask_at) return false;
    ask_(unanswered.holder, key);
    unanswered.ask_at = now + kAskAgain * (1 << ++unanswered.asked);
    return false;
  });
}

void ClaimArbiter::Accept(FdbKey key, const MacClaim& claim) {
  if (claims_.Set(key, claim)) Report(key);
}

// Tells who holds the MAC now.
void ClaimArbiter::Report(FdbKey key) {
  const absl::optional<MacClaim> holder = claims_.Best(key);
  if (!holder || holder->agent == own_->id()) {
    events_->OnMacFree(key);
    return;
  }
  events_->OnMac(key, *holder);
  if (claims_.Of(key, own_->id())) Lose(key, *holder);
}

void ClaimArbiter::Lose(FdbKey key, const MacClaim& winner) {
  claims_.Remove(key, own_->id());
  own_->RemoveMac(key);
  const absl::Time now = clock_->Now();
  Dispute& dispute = DisputeOver(key);
  std::vector<absl::Time>& losses = dispute.losses;
  losses.erase(std::remove_if(losses.begin(), losses.end(), [now](absl::Time loss) { return now - loss > kWindow; }),
               losses.end());
  losses.push_back(now);
  const bool duplicate = losses.size() >= kLossesOfDuplicate;
  // The earlier claimant goes on for a while; it stops, too, if the other one does not.
  if (duplicate && (dispute.we_came_later || losses.size() >= 2 * kLossesOfDuplicate)) dispute.stopped_until = now + kWindow;
  events_->OnClaimLost(key, winner, duplicate);
}

void ClaimArbiter::Contest(FdbKey key) {
  const absl::optional<MacClaim> holder = claims_.Best(key);
  if (!holder || holder->agent == own_->id() || questions_.contains(key)) return;
  Inquire(key, holder->agent, absl::nullopt);
}

void ClaimArbiter::OnAnswer(FdbKey key, const AgentId& agent, bool has) {
  const auto question = questions_.find(key);
  if (question != questions_.end() && question->second.holder == agent) {
    if (has) {
      questions_.erase(question);
    } else {
      Decide(key);
    }
    return;
  }
  const auto unanswered = unanswered_.find(key);
  if (unanswered != unanswered_.end() && unanswered->second.holder == agent) unanswered_.erase(unanswered);
  if (!has && claims_.Remove(key, agent)) Report(key);
}

void ClaimArbiter::Run() {
  const absl::Time now = clock_->Now();
  std::vector<FdbKey> silent;
  for (auto& [key, question] : questions_) {
    if (question.deadline <= now) {
      silent.push_back(key);
    } else if (question.ask_at <= now) {
      question.ask_at += kAskEvery;
      ask_(question.holder, key);
    }
  }
  for (const FdbKey key : silent) {
    NoteUnanswered(key);
    Decide(key);
  }
  AskAgain();
  if (now < sweep_at_) return;
  sweep_at_ = now + kSweep;
  absl::erase_if(disputes_, [this](const auto& dispute) { return IsOver(dispute.second); });
}

absl::Time ClaimArbiter::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, question] : questions_) next = std::min({next, question.deadline, question.ask_at});
  for (const auto& [key, unanswered] : unanswered_) next = std::min(next, unanswered.ask_at);
  return next;
}

}  // namespace eoib
