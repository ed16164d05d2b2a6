#include "fdb/cohorts.h"

#include <algorithm>
#include <numeric>

#include "vswitch/base/check.h"

namespace eoib {

absl::optional<CohortId> Cohorts::For(VPortId vport, Vid vid, CohortKind kind) {
  Cohort cohort{vport, vid, kind};
  const auto [known, is_new] = by_name_.try_emplace(NameOf(cohort), 0);
  if (!is_new) return CohortId(known->second);
  // The oldest free number first.
  const bool fresh = free_.empty();
  const uint32_t number = fresh ? static_cast<uint32_t>(cohorts_.size()) : free_.front();
  // The table learns of the cohort before any entry names it.
  if (!table_->SetCohort(CohortId(number), vport)) {
    by_name_.erase(known);
    return absl::nullopt;
  }
  known->second = number;
  cohort.holding = HoldingFor(vport);
  if (fresh) {
    cohorts_.push_back(cohort);
  } else {
    free_.pop_front();
    cohorts_[number] = cohort;
  }
  Link(number, &Cohort::of_vport, &holdings_[cohort.holding].first);
  Link(number, &Cohort::of_vlan, &by_vlan_.try_emplace(vid, kNone).first->second);
  return CohortId(number);
}

void Cohorts::Link(uint32_t number, Links Cohort::*list, uint32_t* first) {
  cohorts_[number].*list = {kNone, *first};
  if (*first != kNone) (cohorts_[*first].*list).before = number;
  *first = number;
}

void Cohorts::Unlink(uint32_t number, Links Cohort::*list, uint32_t* first) {
  const Links links = cohorts_[number].*list;
  (links.before == kNone ? *first : (cohorts_[links.before].*list).after) = links.after;
  if (links.after != kNone) (cohorts_[links.after].*list).before = links.before;
}

uint32_t Cohorts::HoldingFor(VPortId vport) {
  const auto [known, is_new] = by_vport_.try_emplace(vport, 0);
  if (!is_new) return known->second;
  if (free_holdings_.empty()) {
    known->second = static_cast<uint32_t>(holdings_.size());
    holdings_.emplace_back();
  } else {
    known->second = free_holdings_.back();
    free_holdings_.pop_back();
  }
  holdings_[known->second].vport = vport;
  return known->second;
}

const Cohorts::Holding* Cohorts::Find(VPortId vport) const {
  if (vport.IsNone()) return nullptr;
  // Learning asks for the same vPort many times in a row, so the last answer is kept.
  if (vport != found_) {
    const auto known = by_vport_.find(vport);
    if (known == by_vport_.end()) return nullptr;
    found_ = vport;
    found_holding_ = known->second;
  }
  return &holdings_[found_holding_];
}

void Cohorts::Joined(CohortId id, FdbKey key) {
  Cohort& cohort = cohorts_[id.value()];
  ++cohort.entries;
  ++live_;
  Count(cohort, 1);
  // Only dynamic entries can be evicted, so only their keys are remembered.
  if (cohort.kind != CohortKind::kDynamic) return;
  Newest& newest = holdings_[cohort.holding].newest;
  newest.keys[newest.next] = key;
  newest.next = static_cast<uint8_t>((newest.next + 1) % Newest::kMost);
  newest.count = static_cast<uint8_t>(std::min<size_t>(newest.count + size_t{1}, Newest::kMost));
}

void Cohorts::Left(CohortId id) {
  Cohort& cohort = cohorts_[id.value()];
  EOIB_DCHECK(cohort.entries != 0);
  --cohort.entries;
  if (IsForgotten(id)) {
    --forgotten_;
  } else {
    --live_;
    Count(cohort, -1);
  }
  if (cohort.entries != 0) return;
  // A forgotten cohort left the lists when it was forgotten.
  if (!IsForgotten(id)) Unlist(id.value());
  cohort = {};
  free_.push_back(id.value());
}

void Cohorts::Count(const Cohort& cohort, int64_t change) {
  size_t& held = holdings_[cohort.holding].held[static_cast<size_t>(cohort.kind)];
  held += static_cast<size_t>(change);
  if (cohort.kind == CohortKind::kDynamic) ranking_.Set(cohort.holding, held);
}

void Cohorts::Unlist(uint32_t number) {
  const Cohort& cohort = cohorts_[number];
  by_name_.erase(NameOf(cohort));
  const auto vlan = by_vlan_.find(cohort.vid);
  Unlink(number, &Cohort::of_vlan, &vlan->second);
  if (vlan->second == kNone) by_vlan_.erase(vlan);
  Holding& holding = holdings_[cohort.holding];
  Unlink(number, &Cohort::of_vport, &holding.first);
  if (holding.first != kNone) return;
  by_vport_.erase(holding.vport);
  if (found_ == holding.vport) found_ = VPortId::None();
  holding = {};
  free_holdings_.push_back(cohort.holding);
}

size_t Cohorts::ForgetOne(uint32_t number, Kinds kinds) {
  Cohort& cohort = cohorts_[number];
  if (std::find(kinds.begin(), kinds.end(), cohort.kind) == kinds.end()) return 0;
  table_->SetCohort(CohortId(number), VPortId::None());
  Count(cohort, -int64_t{cohort.entries});
  live_ -= cohort.entries;
  forgotten_ += cohort.entries;
  Unlist(number);
  cohort.vport = VPortId::None();
  if (cohort.entries == 0) free_.push_back(number);
  return cohort.entries;
}

size_t Cohorts::ForgetList(uint32_t first, Links Cohort::*list, Kinds kinds) {
  size_t entries = 0;
  for (uint32_t number = first, after; number != kNone; number = after) {
    after = (cohorts_[number].*list).after;  // read before ForgetOne unlinks it
    entries += ForgetOne(number, kinds);
  }
  return entries;
}

size_t Cohorts::ForgetVPort(VPortId vport, Kinds kinds) {
  const Holding* const known = Find(vport);
  return known == nullptr ? 0 : ForgetList(known->first, &Cohort::of_vport, kinds);
}

size_t Cohorts::ForgetVlan(Vid vid, Kinds kinds) {
  const auto known = by_vlan_.find(vid);
  return known == by_vlan_.end() ? 0 : ForgetList(known->second, &Cohort::of_vlan, kinds);
}

size_t Cohorts::ForgetAll(Kinds kinds) {
  size_t entries = 0;
  for (uint32_t number = 0; number < cohorts_.size(); ++number) {
    if (!cohorts_[number].vport.IsNone()) entries += ForgetOne(number, kinds);
  }
  return entries;
}

size_t Cohorts::Held(VPortId vport, CohortKind kind) const {
  const Holding* const known = Find(vport);
  return known == nullptr ? 0 : known->held[static_cast<size_t>(kind)];
}

size_t Cohorts::Held(VPortId vport) const {
  const Holding* const known = Find(vport);
  return known == nullptr ? 0 : std::accumulate(known->held.begin(), known->held.end(), size_t{0});
}

Cohorts::Holder Cohorts::Largest() const {
  const absl::optional<uint32_t> largest = ranking_.Largest();
  if (!largest.has_value()) return {};
  return {holdings_[*largest].vport, ranking_.Count(*largest)};
}

void Cohorts::VisitHolders(absl::FunctionRef<void(VPortId vport, const Counts& held)> visit) const {
  for (const auto& [vport, holding] : by_vport_) visit(vport, holdings_[holding].held);
}

absl::optional<FdbKey> Cohorts::TakeNewest(VPortId vport) {
  const Holding* const known = Find(vport);
  if (known == nullptr || known->newest.count == 0) return absl::nullopt;
  Newest& newest = holdings_[found_holding_].newest;
  // Find(vport) has just set found_holding_.
  newest.next = static_cast<uint8_t>((newest.next + Newest::kMost - 1) % Newest::kMost);
  --newest.count;
  return newest.keys[newest.next];
}

}  // namespace eoib
