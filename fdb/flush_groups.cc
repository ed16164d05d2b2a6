#include "fdb/flush_groups.h"

#include <algorithm>
#include <numeric>

#include "vswitch/base/check.h"

namespace eoib {

absl::optional<FlushGroupId> FlushGroups::GroupFor(VPortId vport, Vid vid, EntryKind kind) {
  FlushGroup group{vport, vid, kind};
  const auto [known, is_new] = by_name_.try_emplace(NameOf(group), 0);
  if (!is_new) return FlushGroupId(known->second);
  // The oldest free number first.
  const bool fresh = free_.empty();
  const uint32_t number = fresh ? static_cast<uint32_t>(groups_.size()) : free_.front();
  // The table learns of the flush group before any entry names it.
  if (!table_->SetGroupVPort(FlushGroupId(number), vport)) {
    by_name_.erase(known);
    return absl::nullopt;
  }
  known->second = number;
  group.holding = HoldingFor(vport);
  if (fresh) {
    groups_.push_back(group);
  } else {
    free_.pop_front();
    groups_[number] = group;
  }
  ++holdings_[group.holding].groups;
  return FlushGroupId(number);
}

uint32_t FlushGroups::HoldingFor(VPortId vport) {
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

const FlushGroups::Holding* FlushGroups::Find(VPortId vport) const {
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

void FlushGroups::Joined(FlushGroupId id, FdbKey key) {
  FlushGroup& group = groups_[id.value()];
  ++group.entries;
  ++live_;
  Count(group, 1);
  // Only dynamic entries can be evicted, so only their keys are remembered.
  if (group.kind != EntryKind::kDynamic) return;
  Newest& newest = holdings_[group.holding].newest;
  newest.keys[newest.next] = key;
  newest.next = static_cast<uint8_t>((newest.next + 1) % Newest::kMost);
  newest.count = static_cast<uint8_t>(std::min<size_t>(newest.count + size_t{1}, Newest::kMost));
}

void FlushGroups::Left(FlushGroupId id) {
  FlushGroup& group = groups_[id.value()];
  EOIB_DCHECK(group.entries != 0);
  --group.entries;
  if (IsFlushed(id)) {
    --flushed_;
  } else {
    --live_;
    Count(group, -1);
  }
  if (group.entries != 0) return;
  // A flushed group was forgotten when it was flushed.
  if (!IsFlushed(id)) Forget(group);
  group = {};
  free_.push_back(id.value());
}

void FlushGroups::Count(const FlushGroup& group, int64_t change) {
  size_t& held = holdings_[group.holding].held[static_cast<size_t>(group.kind)];
  held += static_cast<size_t>(change);
  if (group.kind == EntryKind::kDynamic) ranking_.Set(group.holding, held);
}

// Drops a group from the indices, and the holding of its vPort with the vPort's last group.
void FlushGroups::Forget(const FlushGroup& group) {
  by_name_.erase(NameOf(group));
  Holding& holding = holdings_[group.holding];
  if (--holding.groups != 0) return;
  by_vport_.erase(holding.vport);
  if (found_ == holding.vport) found_ = VPortId::None();
  holding = {};
  free_holdings_.push_back(group.holding);
}

size_t FlushGroups::FlushOne(uint32_t number) {
  FlushGroup& group = groups_[number];
  table_->SetGroupVPort(FlushGroupId(number), VPortId::None());
  Count(group, -int64_t{group.entries});
  live_ -= group.entries;
  flushed_ += group.entries;
  Forget(group);
  group.vport = VPortId::None();
  if (group.entries == 0) free_.push_back(number);
  return group.entries;
}

// A flush is rare, and groups are few beside entries, so it looks at all of them.
size_t FlushGroups::FlushIf(absl::FunctionRef<bool(const FlushGroup&)> concerned, EntryKind kind) {
  size_t entries = 0;
  for (uint32_t number = 0; number < groups_.size(); ++number) {
    const FlushGroup& group = groups_[number];
    if (!group.vport.IsNone() && group.kind == kind && concerned(group))
      entries += FlushOne(number);
  }
  return entries;
}

size_t FlushGroups::FlushVPort(VPortId vport, EntryKind kind) {
  if (Find(vport) == nullptr) return 0;
  return FlushIf([vport](const FlushGroup& group) { return group.vport == vport; }, kind);
}

size_t FlushGroups::FlushVlan(Vid vid, EntryKind kind) {
  return FlushIf([vid](const FlushGroup& group) { return group.vid == vid; }, kind);
}

size_t FlushGroups::FlushAll(EntryKind kind) {
  return FlushIf([](const FlushGroup&) { return true; }, kind);
}

size_t FlushGroups::Held(VPortId vport, EntryKind kind) const {
  const Holding* const known = Find(vport);
  return known == nullptr ? 0 : known->held[static_cast<size_t>(kind)];
}

size_t FlushGroups::Held(VPortId vport) const {
  const Holding* const known = Find(vport);
  return known == nullptr ? 0 : std::accumulate(known->held.begin(), known->held.end(), size_t{0});
}

FlushGroups::Holder FlushGroups::Largest() const {
  const absl::optional<uint32_t> largest = ranking_.Largest();
  if (!largest.has_value()) return {};
  return {holdings_[*largest].vport, ranking_.Count(*largest)};
}

void FlushGroups::VisitHolders(
    absl::FunctionRef<void(VPortId vport, const Counts& held)> visit) const {
  for (const auto& [vport, holding] : by_vport_) visit(vport, holdings_[holding].held);
}

absl::optional<FdbKey> FlushGroups::TakeNewest(VPortId vport) {
  const Holding* const known = Find(vport);
  if (known == nullptr || known->newest.count == 0) return absl::nullopt;
  Newest& newest = holdings_[found_holding_].newest;
  // Find(vport) has just set found_holding_.
  newest.next = static_cast<uint8_t>((newest.next + Newest::kMost - 1) % Newest::kMost);
  --newest.count;
  return newest.keys[newest.next];
}

}  // namespace eoib
