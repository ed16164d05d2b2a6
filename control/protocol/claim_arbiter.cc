#include "control/protocol/claim_arbiter.h"

#include <algorithm>
#include <limits>

namespace eoib {
namespace {

constexpr absl::Duration kSweep = absl::Seconds(5);
// Candidates are many when an agent starts, so it does not look at them for each.
constexpr absl::Duration kLookEvery = absl::Milliseconds(50);
// Claims that become established in one run. A host may have thousands of configured MACs.
constexpr size_t kEstablishedAtOnce = 256;

// The sequence number that beats `sequence`. The last one stays, and then the lower agent id holds.
uint32_t Next(uint32_t sequence) {
  return sequence == std::numeric_limits<uint32_t>::max() ? sequence : sequence + 1;
}

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
  if (ours) {  // it holds, or it is on standby: any other claim that does not is dropped at once
    own_->SetMac(key, {vport, ours->sequence, ours->sticky, ours->stage});
    return true;
  }
  const absl::optional<MacClaim> holder = claims_.Best(key);
  const ClaimStage stage =
      sticky || clock_->Now() < settled_at_ ? ClaimStage::kTentative : ClaimStage::kEstablished;
  const MacClaim claim{own_->id(), std::max(least, Next(holder ? holder->sequence : 0)), sticky,
                       stage};
  if (holder) {
    // A sticky one is given up, or lost on a tie, but not taken.
    if (holder->sticky || !claim.Beats(*holder)) return false;
    Dispute& dispute = DisputeOver(key);
    if (dispute.losses.empty()) dispute.we_came_later = true;  // else the MAC was ours before
  }
  SetOwn(key, {vport, claim.sequence, sticky, stage});
  return true;
}

void ClaimArbiter::ClaimConfigured(FdbKey key, uint16_t vport) {
  const absl::optional<MacClaim> ours = claims_.Of(key, own_->id());
  const bool is_new = configured_.try_emplace(key).second;
  if (ours && !is_new) return own_->SetMac(key, {vport, ours->sequence, true, ours->stage});
  disputes_.erase(key);
  const absl::optional<MacClaim> rival = claims_.BestBut(key, own_->id());
  SetOwn(key, {vport, Next(rival ? rival->sequence : 0), true, ClaimStage::kTentative});
}

void ClaimArbiter::Release(FdbKey key) {
  const bool was_configured = configured_.erase(key) != 0;
  if (!claims_.Of(key, own_->id())) return;
  if (was_configured) NoteConflict(key, absl::nullopt);
  own_->RemoveMac(key);
  const bool changed = claims_.Remove(key, own_->id());
  Review(key);
  if (changed || was_configured) Report(key);
}

void ClaimArbiter::TakeNewId(const AgentId& former) {
  std::vector<FdbKey> keys;
  for (const auto& [key, mac] : own_->current().macs) {
    absl::optional<MacClaim> claim = claims_.Of(key, former);
    if (!claim) continue;
    claim->agent = own_->id();
    claims_.Remove(key, former);
    claims_.Set(key, *claim);
    keys.push_back(key);
  }
  for (const FdbKey key : keys) {
    if (claims_.Best(key)->agent == own_->id()) continue;
    Report(key);  // the new id is higher than that of an equal claim
    Review(key);
  }
}

// ---- Stages of our claims -----------------------------------------------------------------------

void ClaimArbiter::OnAddress() {
  settled_at_ = clock_->Now() + kTentative;
  std::vector<FdbKey> keys;
  for (const auto& [key, mac] : own_->current().macs) {
    if (mac.sticky || mac.stage != ClaimStage::kEstablished) keys.push_back(key);
  }
  for (const FdbKey key : keys) {
    const bool stands_by = own_->current().macs.at(key).stage == ClaimStage::kStandby;
    SetStage(key, stands_by ? ClaimStage::kStandby : ClaimStage::kTentative);
    Review(key);
  }
}

void ClaimArbiter::SetOwn(FdbKey key, const AgentView::Mac& mac) {
  own_->SetMac(key, mac);
  SetStage(key, mac.stage);
  Report(key);
  Review(key);
}

// Our claim has that stage from now on. A candidate that is not judged yet is never established.
void ClaimArbiter::SetStage(FdbKey key, ClaimStage stage) {
  AgentView::Mac mac = own_->current().macs.at(key);
  mac.stage = stage;
  own_->SetMac(key, mac);
  claims_.Set(key, {own_->id(), mac.sequence, mac.sticky, stage});
  if (stage == ClaimStage::kEstablished) {
    candidates_.erase(key);
  } else {
    candidates_[key] = {clock_->Now(), absl::InfiniteFuture()};
  }
}

void ClaimArbiter::Establish() {
  const absl::Time now = clock_->Now();
  if (now < establish_at_) return;
  std::vector<FdbKey> due;
  establish_at_ = absl::InfiniteFuture();
  for (const auto& [key, candidate] : candidates_) {
    if (due.size() == kEstablishedAtOnce) {
      establish_at_ = now;
      break;
    }
    if (candidate.due <= now) {
      due.push_back(key);
    } else {
      establish_at_ = std::min(establish_at_, std::max(candidate.due, now + kLookEvery));
    }
  }
  for (const FdbKey key : due) {
    SetStage(key, ClaimStage::kEstablished);
    Review(key);
  }
}

// Judges a claim of ours again, because it or others have changed.
void ClaimArbiter::Review(FdbKey key) {
  const absl::optional<MacClaim> ours = claims_.Of(key, own_->id());
  const absl::optional<MacClaim> rival = ours ? claims_.BestBut(key, own_->id()) : absl::nullopt;
  const auto configured = configured_.find(key);
  if (configured != configured_.end()) NoteConflict(key, rival);
  if (!ours || !ours->IsFixed() || !rival || !rival->IsFixed()) {
    poll_.Remove(key);
  } else if (configured != configured_.end() && configured->second.agent == rival->agent &&
             configured->second.incarnation == agents_.incarnation_of(rival->agent)) {
    YieldTo(key, *rival);
  } else {
    poll_.Add(key, rival->agent);
  }
  const auto candidate = candidates_.find(key);
  if (candidate == candidates_.end()) return;
  if (!ours) return void(candidates_.erase(candidate));
  const bool holds = claims_.Best(key)->agent == own_->id();
  if (!holds && ours->stage == ClaimStage::kTentative) return YieldTo(key, *rival);
  absl::Time& due = candidate->second.due;
  if (!holds || !own_->has_address()) {
    due = absl::InfiniteFuture();
  } else if (due == absl::InfiniteFuture()) {
    due = clock_->Now() + kTentative;
    establish_at_ = std::min(establish_at_, due);
  }
}

void ClaimArbiter::YieldTo(FdbKey key, const MacClaim& rival) {
  const auto configured = configured_.find(key);
  poll_.Remove(key);
  if (configured == configured_.end()) {
    Lose(key, rival);
    Report(key);
    return;
  }
  configured->second = {rival.agent, agents_.incarnation_of(rival.agent)};
  SetStage(key, ClaimStage::kStandby);
}

void ClaimArbiter::OnHeldElsewhere(FdbKey key) {
  const auto candidate = candidates_.find(key);
  if (candidate == candidates_.end()) return;
  const auto& [since, due] = candidate->second;
  candidate->second.due =
      std::max(due, std::min(clock_->Now() + kStateWithin, since + kLongestTentative));
}

void ClaimArbiter::NoteConflict(FdbKey key, const absl::optional<MacClaim>& rival) {
  const auto known = conflicts_.find(key);
  if (!rival) {
    if (known == conflicts_.end()) return;
    conflicts_.erase(known);
    return events_->OnConflictOver(key);
  }
  if (known != conflicts_.end()) {
    known->second = *rival;
    return;
  }
  conflicts_.emplace(key, *rival);
  ++counters_->conflicts;
  events_->OnConflict(key, *rival);
}

void ClaimArbiter::RunPoll() {
  const std::vector<FdbKey> questions = poll_.TakeQuestions();
  if (!questions.empty()) agents_.poll(questions);
  for (const FdbKey key : poll_.TakeLost()) {
    if (const absl::optional<MacClaim> rival = claims_.BestBut(key, own_->id()))
      YieldTo(key, *rival);
  }
}

// ---- Claims of others ---------------------------------------------------------------------------

void ClaimArbiter::SetRemote(FdbKey key, const MacClaim& claim) {
  if (claims_.Set(key, claim)) Report(key);
  const absl::optional<MacClaim> ours = claims_.Of(key, own_->id());
  if (ours) {
    Review(key);
    if (ours->IsFixed() && claim.sticky && claim.stage != ClaimStage::kStandby)
      agents_.defend(claim.agent, key);
    return;  // else we would answer that we have it
  }
  const MacClaim holder = *claims_.Best(key);
  if (!holder.sticky && !claim.sticky && claim.sequence > holder.sequence)
    Inquire(key, holder.agent);
}

// Asks the holder, several times because a message may be lost. A further reason does not prolong
// the holder's time.
void ClaimArbiter::Inquire(FdbKey key, const AgentId& holder) {
  const auto asked = questions_.find(key);
  if (asked != questions_.end() && asked->second.holder == holder) return;
  if (asked == questions_.end() && questions_.size() >= kMaxQuestions) return;
  const absl::Time now = clock_->Now();
  questions_[key] = {holder, now + kPatience, now + kAskEvery};
  agents_.ask(holder, key);
}

void ClaimArbiter::RemoveRemote(FdbKey key, const AgentId& agent) {
  const auto unanswered = unanswered_.find(key);
  if (unanswered != unanswered_.end() && unanswered->second.holder == agent)
    unanswered_.erase(unanswered);
  const auto question = questions_.find(key);
  if (question != questions_.end() && question->second.holder == agent) questions_.erase(question);
  Drop(key, agent);
}

void ClaimArbiter::Drop(FdbKey key, const AgentId& agent) {
  if (claims_.Remove(key, agent)) Report(key);
  if (claims_.Of(key, own_->id())) Review(key);
}

// The holder that was asked was silent. If its claim is fixed it keeps the MAC until it cannot be
// reached.
void ClaimArbiter::Decide(FdbKey key) {
  const AgentId holder = questions_.at(key).holder;
  const absl::optional<MacClaim> claim = claims_.Of(key, holder);
  if (claim && !claim->IsFixed()) {
    NoteUnanswered(key);
    Drop(key, holder);
  }
  questions_.erase(key);
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
    agents_.ask(unanswered.holder, key);
    unanswered.ask_at = now + kAskAgain * (1 << ++unanswered.asked);
    return false;
  });
}

// Tells our agent which other one holds the MAC now. A configured MAC of ours stays here, whatever
// others claim.
void ClaimArbiter::Report(FdbKey key) {
  const absl::optional<MacClaim> holder = claims_.Best(key);
  if (!holder || holder->agent == own_->id() || configured_.contains(key)) {
    events_->OnMacFree(key);
    return;
  }
  events_->OnMac(key, *holder);
  if (claims_.Of(key, own_->id())) Lose(key, *holder);
}

void ClaimArbiter::Lose(FdbKey key, const MacClaim& winner) {
  claims_.Remove(key, own_->id());
  candidates_.erase(key);
  own_->RemoveMac(key);
  const absl::Time now = clock_->Now();
  Dispute& dispute = DisputeOver(key);
  std::vector<absl::Time>& losses = dispute.losses;
  losses.erase(std::remove_if(losses.begin(), losses.end(),
                              [now](absl::Time loss) { return now - loss > kWindow; }),
               losses.end());
  losses.push_back(now);
  const bool duplicate = losses.size() >= kLossesOfDuplicate;
  // The earlier claimant goes on for a while; it stops, too, if the other one does not.
  if (duplicate && (dispute.we_came_later || losses.size() >= 2 * kLossesOfDuplicate))
    dispute.stopped_until = now + kWindow;
  events_->OnClaimLost(key, winner, duplicate);
}

void ClaimArbiter::Contest(FdbKey key) {
  const absl::optional<MacClaim> holder = claims_.Best(key);
  if (!holder || holder->agent == own_->id() || questions_.contains(key)) return;
  Inquire(key, holder->agent);
}

void ClaimArbiter::OnAnswer(FdbKey key, const AgentId& agent, bool has) {
  const auto question = questions_.find(key);
  if (question != questions_.end() && question->second.holder == agent) questions_.erase(question);
  const auto unanswered = unanswered_.find(key);
  if (unanswered != unanswered_.end() && unanswered->second.holder == agent)
    unanswered_.erase(unanswered);
  if (!has) Drop(key, agent);
}

void ClaimArbiter::Run() {
  const absl::Time now = clock_->Now();
  std::vector<FdbKey> silent;
  for (auto& [key, question] : questions_) {
    if (question.deadline <= now) {
      silent.push_back(key);
    } else if (question.ask_at <= now) {
      question.ask_at += kAskEvery;
      agents_.ask(question.holder, key);
    }
  }
  for (const FdbKey key : silent) Decide(key);
  AskAgain();
  Establish();
  RunPoll();
  if (now < sweep_at_) return;
  sweep_at_ = now + kSweep;
  absl::erase_if(disputes_, [this](const auto& dispute) { return IsOver(dispute.second); });
}

absl::Time ClaimArbiter::NextDeadline() const {
  absl::Time next = std::min(establish_at_, poll_.NextDeadline());
  for (const auto& [key, question] : questions_)
    next = std::min({next, question.deadline, question.ask_at});
  for (const auto& [key, unanswered] : unanswered_) next = std::min(next, unanswered.ask_at);
  return next;
}

}  // namespace eoib
