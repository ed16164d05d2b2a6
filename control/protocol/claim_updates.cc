#include "control/protocol/claim_updates.h"

#include <algorithm>
#include <utility>

namespace eoib {

void ClaimUpdates::AddAll(const AgentId& agent, absl::Time now) {
  const auto planned = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) {
    return plan.of_view && plan.agent == agent;
  });
  const FdbKey first;
  if (planned != plans_.end() && planned->next == first) return;
  if (planned != plans_.end()) plans_.erase(planned);
  absl::erase_if(begun_, [now](const auto& begun) { return now - begun.second >= kPause; });
  const auto [begun, is_new] = begun_.try_emplace(agent, now);
  if (!is_new) begun->second += kPause;
  plans_.push_back({agent, /*of_view=*/true, first, begun->second, {}});
}

void ClaimUpdates::AddFormer(const AgentId& agent, AgentView::Macs macs) {
  if (!macs.by_key.empty())
    plans_.push_back({agent, /*of_view=*/false, FdbKey(), absl::InfinitePast(), std::move(macs)});
}

absl::Time ClaimUpdates::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Plan& plan : plans_) next = std::min(next, plan.begin);
  return next;
}

ClaimUpdates::Plans::iterator ClaimUpdates::Due(absl::Time now) {
  return std::find_if(plans_.begin(), plans_.end(),
                      [now](const Plan& plan) { return plan.begin <= now; });
}

void ClaimUpdates::Run(absl::Time now, absl::FunctionRef<const AgentView*(const AgentId&)> view_of,
                       absl::FunctionRef<void(const AgentId&, FdbKey)> update) {
  const std::map<FdbKey, AgentView::Mac> none;
  const auto plan = Due(now);
  if (plan == plans_.end()) return;
  for (size_t updated = 0; updated < kSlice; ++updated) {
    const AgentView* const view = plan->of_view ? view_of(plan->agent) : nullptr;
    const std::map<FdbKey, AgentView::Mac>& macs = !plan->of_view    ? plan->former.by_key
                                                   : view != nullptr ? view->macs
                                                                     : none;
    const auto at = macs.lower_bound(plan->next);
    if (at == macs.end()) {
      plans_.erase(plan);
      return;
    }
    const FdbKey key = at->first;
    plan->next = FdbKey::FromPacked(key.packed() + 1);
    if (!plan->of_view) plan->former.by_key.erase(plan->former.by_key.begin());
    update(plan->agent, key);
  }
}

}  // namespace eoib
