#include "control/protocol/claim_poll.h"

#include <algorithm>

namespace eoib {

void ClaimPoll::Add(FdbKey key, const AgentId& rival) {
  // Others hear both claims meanwhile.
  if (disputes_.empty() && !asking_) next_ = std::max(next_, clock_->Now() + kPatience);
  Dispute& dispute = disputes_[key];
  if (dispute.rival != rival) dispute = {.rival = rival};
}

void ClaimPoll::OnVote(FdbKey key, const Gid& port, bool against) {
  const auto dispute = disputes_.find(key);
  if (dispute != disputes_.end() && dispute->second.asked) dispute->second.votes[port] |= against;
}

std::vector<FdbKey> ClaimPoll::TakeQuestions() {
  std::vector<FdbKey> keys;
  if (asking_ || clock_->Now() < next_) return keys;
  auto at = disputes_.upper_bound(after_);
  for (size_t count = std::min(disputes_.size(), kMaxMacs); keys.size() < count; ++at) {
    if (at == disputes_.end()) at = disputes_.begin();
    at->second.asked = true;
    keys.push_back(at->first);
  }
  if (keys.empty()) return keys;
  after_ = keys.back();
  asking_ = true;
  next_ = clock_->Now() + kPatience;
  return keys;
}

std::vector<FdbKey> ClaimPoll::TakeLost() {
  std::vector<FdbKey> lost;
  if (!asking_ || clock_->Now() < next_) return lost;
  asking_ = false;
  next_ = clock_->Now() + kPollEvery;
  for (auto& [key, dispute] : disputes_) {
    if (dispute.asked && IsLost(dispute)) lost.push_back(key);
    dispute.asked = false;
    dispute.votes.clear();
  }
  return lost;
}

bool ClaimPoll::IsLost(const Dispute& dispute) const {
  const auto against = std::count_if(dispute.votes.begin(), dispute.votes.end(),
                                     [](const auto& vote) { return vote.second; });
  const auto all = static_cast<ptrdiff_t>(dispute.votes.size()) + 1;  // with ours
  if (all <= 2) return false;
  return 2 * against > all || (2 * against == all && dispute.rival < *own_);
}

}  // namespace eoib
