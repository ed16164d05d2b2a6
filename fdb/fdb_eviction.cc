#include "fdb/fdb_eviction.h"

#include <algorithm>

namespace eoib {
namespace {

// Buckets that one frame searches for an entry to evict. The next frame continues from there.
constexpr size_t kEvictionReach = 64;
// At a limit, one new MAC in kSweepEvery sweeps kSweepReach buckets for aged-out entries. If it
// finds some, the next MAC sweeps too.
constexpr uint32_t kSweepEvery = 8;
constexpr size_t kSweepReach = 8;

}  // namespace

size_t FdbEviction::LimitOf(VPortId vport) const {
  const auto& policies = entries_->policies();
  if (policies.empty()) return options_->vport_limit;
  const auto policy = policies.find(vport);
  return policy != policies.end() && policy->second.limit.has_value() ? *policy->second.limit
                                                                      : options_->vport_limit;
}

bool FdbEviction::MakeRoom(VPortId vport) {
  const FlushGroups& groups = entries_->groups();
  if (groups.Held(vport) >= LimitOf(vport)) return MakeRoomAt(vport);
  const auto is_full = [&] { return groups.live() >= options_->limit; };
  if (!is_full() && !IsCrowded()) return true;
  SweepSome();
  return !is_full() || EvictFor(vport);
}

bool FdbEviction::HasRoom(VPortId vport) const {
  const FlushGroups& groups = entries_->groups();
  return groups.Held(vport) < LimitOf(vport) && groups.live() < options_->limit;
}

// Flushed entries keep their slots until they are reclaimed. A port that goes up and down often
// could fill the table with many times the limit; so near the limit each new entry reclaims some.
bool FdbEviction::IsCrowded() const {
  const size_t live = entries_->groups().live(), flushed = entries_->groups().flushed();
  return flushed != 0 && live + flushed >= options_->limit;
}

bool FdbEviction::MakeRoomAt(VPortId vport) {
  const auto has_room = [this, vport] { return entries_->groups().Held(vport) < LimitOf(vport); };
  if (has_room()) return true;
  SweepSome();
  return has_room() || EvictFrom(vport, vport);
}

// Aged-out and flushed entries go before live ones.
void FdbEviction::SweepSome() {
  if (!sweep_pays_ && entries_->groups().flushed() == 0 && rooms_made_++ % kSweepEvery != 0) return;
  const size_t before = entries_->table().size();
  entries_->Sweep(&evict_at_, kSweepReach);
  sweep_pays_ = entries_->table().size() != before;
}

// The share of a vPort in the common room. Pinned entries count: otherwise a sticky port, which
// pins all its MACs, would seem to hold none and could permanently displace those of all others.
size_t FdbEviction::ShareOf(VPortId vport) const {
  const FlushGroups& groups = entries_->groups();
  return groups.Held(vport, EntryKind::kDynamic) + groups.Held(vport, EntryKind::kPinned);
}

// Evicts from the vPort that holds most, if it then still holds as many as `vport` has; otherwise
// from `vport` itself, if it has entries that are not pinned. So eviction only makes vPorts more
// equal, and equal ones leave each other alone.
bool FdbEviction::EvictFor(VPortId vport) {
  const FlushGroups::Holder largest = entries_->groups().Largest();
  if (largest.dynamic > ShareOf(vport) + 1) return EvictFrom(largest.vport, vport);
  return entries_->groups().Held(vport, EntryKind::kDynamic) != 0 && EvictFrom(vport, vport);
}

// Evicts the newest remembered entry of `victim`. If the vPort keeps inventing addresses, that is
// one of these and its older entries stay. If none is remembered, evicts any entry of it that is
// found within kEvictionReach buckets.
bool FdbEviction::EvictFrom(VPortId victim, VPortId vport) {
  FlushGroups& groups = entries_->groups();
  const auto is_evictable = [&groups, victim](const MacEntry& entry) {
    return groups.VPortOf(entry.group) == victim &&
           groups.KindOf(entry.group) == EntryKind::kDynamic;
  };
  const auto evict = [this, victim, vport](FdbKey key, const MacEntry& entry) {
    entries_->Erase(key, entry);
    ++entries_->counters().evicted;
    entries_->AddEvent(FdbEvent::Kind::kEvicted, key, victim, vport);
    return true;
  };
  MacEntry entry;
  for (absl::optional<FdbKey> key; (key = groups.TakeNewest(victim)).has_value();) {
    // A remembered key may have left the table, moved away or been pinned since.
    if (entries_->table().Get(*key, &entry) && is_evictable(entry)) return evict(*key, entry);
  }
  FdbKey key;
  const auto wanted = [&is_evictable](FdbKey, const MacEntry& entry) {
    return is_evictable(entry);
  };
  if (!entries_->table().FindNext(&evict_at_, kEvictionReach, wanted, &key)) return false;
  entries_->table().Get(key, &entry);
  return evict(key, entry);
}

}  // namespace eoib
