#include "fdb/fdb_entries.h"

#include <algorithm>
#include <limits>

namespace eoib {
namespace {

using Kind = FdbEvent::Kind;

constexpr EntryKind KindOf(const MacEntry& entry) {
  if (entry.origin == FdbOrigin::kStatic) return EntryKind::kFixed;
  return entry.pinned ? EntryKind::kPinned : EntryKind::kDynamic;
}

}  // namespace

FdbEntries::FdbEntries(const FdbOptions* options, const FdbTicks* ticks, const Clock* clock,
                       MacTable* table, FdbEventLog* log, FdbSizes* sizes)
    : ticks_(ticks),
      clock_(clock),
      table_(table),
      log_(log),
      sizes_(sizes),
      groups_(table),
      damper_(options->damping, options->gid_of) {}

void FdbEntries::BeginChange() {
  now_ = clock_->Now();
  tick_ = ticks_->At(now_);
}

FdbEntries::Known FdbEntries::Look(FdbKey key) const {
  Known known;
  known.in_table = table_->Get(key, &known.entry);
  if (!known.in_table) return known;
  known.vport = groups_.VPortOf(known.entry.group);
  known.live = !known.vport.IsNone() && IsLive(known.entry, Limit());
  return known;
}

MacEntry FdbEntries::NewEntry(VPortId vport, FdbOrigin origin) const {
  MacEntry entry;
  entry.last_seen = tick_;
  entry.origin = origin;
  const auto policy = policies_.find(vport);
  entry.pinned = IsLocal(origin) && policy != policies_.end() && policy->second.sticky;
  return entry;
}

bool FdbEntries::Write(FdbKey key, const Known& known, VPortId vport, MacEntry entry) {
  const absl::optional<FlushGroupId> group = groups_.GroupFor(vport, key.vid(), KindOf(entry));
  if (!group.has_value()) return false;
  entry.group = *group;
  if (!table_->Put(key, entry)) return false;
  if (!known.in_table || known.entry.group != *group) {
    groups_.Joined(*group, key);
    if (known.in_table) groups_.Left(known.entry.group);
  }
  // The damper must not keep a freeze for an entry that is no longer pinned.
  if (known.in_table && known.entry.pinned && !entry.pinned) damper_.Thaw(key);
  Publish();
  return true;
}

void FdbEntries::Erase(FdbKey key, const MacEntry& entry) {
  table_->Erase(key);
  Leave(key, entry);
  Publish();
}

// Drops what is kept beside the entry, which has left the table or is about to.
void FdbEntries::Leave(FdbKey key, const MacEntry& entry) {
  groups_.Left(entry.group);
  if (entry.pinned) damper_.Thaw(key);
}

void FdbEntries::Reclaim(FdbKey key, const Known& known) {
  if (!known.vport.IsNone()) CountAged(key, known.vport);
  Erase(key, known.entry);
}

size_t FdbEntries::Sweep(MacTable::Cursor* cursor, size_t buckets) {
  const AgeLimit limit = Limit();
  size_t erased = 0, aged = 0;
  const auto condemned = [&](FdbKey key, const MacEntry& entry) {
    const VPortId vport = groups_.VPortOf(entry.group);
    if (!vport.IsNone() && IsLive(entry, limit)) return false;
    if (!vport.IsNone()) {
      ++aged;
      CountAged(key, vport);
    }
    Leave(key, entry);
    return true;
  };
  table_->EraseNext(cursor, buckets, condemned, &erased);
  if (erased != 0) Publish();
  return aged;
}

void FdbEntries::CountAged(FdbKey key, VPortId vport) {
  ++counters_.aged;
  AddEvent(Kind::kAged, key, vport, VPortId::None());
}

void FdbEntries::Publish() { sizes_->live.store(groups_.live(), std::memory_order_relaxed); }

void FdbEntries::AddEvent(Kind kind, FdbKey key, VPortId from, VPortId to) {
  log_->Write({static_cast<uint64_t>(absl::ToUnixNanos(now_)), key, from, to, 1, kind});
}

void FdbEntries::ReportFlushed(size_t count, FdbEvent::Scope scope, FdbKey key, VPortId vport) {
  counters_.flushed += count;
  Publish();
  if (count == 0) return;
  const auto reported =
      static_cast<uint32_t>(std::min<size_t>(count, std::numeric_limits<uint32_t>::max()));
  log_->Write({static_cast<uint64_t>(absl::ToUnixNanos(now_)), key, vport, VPortId::None(),
               reported, Kind::kFlushed, scope});
}

}  // namespace eoib
