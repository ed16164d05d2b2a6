// How an Fdb removes entries: ageing, reclaiming what was flushed, and eviction at a limit.
#include <algorithm>
#include <utility>

#include "fdb/fdb.h"

namespace eoib {
namespace {

using Kind = FdbEvent::Kind;
using Scope = FdbEvent::Scope;

// Buckets that one call of Age visits at least.
constexpr size_t kLeastSweep = 256;
// Buckets that one frame searches for an entry to evict. The next frame continues from there.
constexpr size_t kEvictionReach = 64;
// At a limit, one new MAC in kSweepEvery sweeps kSweepReach buckets for aged-out entries. If it finds some, the next MAC
// sweeps too.
constexpr uint32_t kSweepEvery = 8;
constexpr size_t kSweepReach = 8;
}  // namespace

size_t Fdb::Age() {
  const absl::Duration round = std::clamp(options_.ageing / 10, absl::Seconds(1), absl::Seconds(30));
  size_t quota = 0;
  {
    absl::MutexLock lock(&writer_);
    Begin();
    const absl::Duration since = now_ - std::exchange(aged_, now_);
    for (FdbKey key : damper_.Due(now_)) ThawLocked(key);
    // If the process was stopped for half a day, ticks have wrapped and the oldest entries would look young again. The oldest
    // are those that had aged out and waited to be reclaimed, for up to a round, or longer if Age was late. So flush all.
    const absl::Duration ticks_left = absl::Seconds(int64_t{tick_seconds_} * (AgeLimit::kNever - ageing_ticks_));
    if (since > ticks_left - 2 * round && ageing_ticks_ != AgeLimit::kNever) {
      CountFlushed(cohorts_.ForgetAll({CohortKind::kDynamic}), Scope::kAll, FdbKey(), VPortId::None());
    }
    if (ageing_ticks_ == AgeLimit::kNever && cohorts_.forgotten() == 0) return 0;
    const double share = std::min(1.0, absl::FDivDuration(since, round));
    // The last piece of the table may be a small one.
    quota = std::max(kLeastSweep, static_cast<size_t>(share * static_cast<double>(table_.buckets())) + kBucketsAtATime);
  }
  size_t aged = 0;
  for (size_t done = 0; done < quota; done += kBucketsAtATime) {
    absl::MutexLock lock(&writer_);
    Begin();
    aged += Sweep(&age_at_, kBucketsAtATime);
    if (age_at_ == 0 && table_.buckets() <= kBucketsAtATime) break;  // a whole round is done
  }
  return aged;
}

// Removes the entries that aged out or were flushed from the next `buckets` buckets. Returns how many aged out.
size_t Fdb::Sweep(MacTable::Cursor* cursor, size_t buckets) {
  const AgeLimit limit = Limit(tick_);
  size_t erased = 0, aged = 0;
  const auto condemned = [&](FdbKey key, const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
    const VPortId vport = cohorts_.VPortOf(entry.cohort);
    if (!vport.IsNone() && IsLive(entry, limit)) return false;
    if (!vport.IsNone()) {
      ++aged;
      CountAged(key, vport);
    }
    Leave(key, entry);
    return true;
  };
  table_.EraseNext(cursor, buckets, condemned, &erased);
  if (erased != 0) Publish();
  return aged;
}

// ---- Who gives way ----------------------------------------------------------------------------------------------------

size_t Fdb::LimitOf(VPortId vport) const {
  if (policies_.empty()) return options_.vport_limit;
  const auto policy = policies_.find(vport);
  return policy != policies_.end() && policy->second.limit.has_value() ? *policy->second.limit : options_.vport_limit;
}

// Makes room for a new entry of `vport`. Its work is bounded, because any sender can cause it with every frame.
Fdb::Room Fdb::MakeRoom(VPortId vport, bool host_tried) {
  if (cohorts_.Held(vport) >= LimitOf(vport)) return MakeRoomAt(vport) ? Room::kThere : Room::kNone;
  const auto is_full = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) { return cohorts_.live() >= options_.limit; };
  const auto is_spent = [this] { return options_.budget != nullptr && options_.budget->IsSpent(); };
  if (!is_full() && !is_spent() && !IsCrowded()) return Room::kThere;
  SweepSome();
  if (!is_full() && !is_spent()) return Room::kThere;
  // Only the host's budget is spent, so another VES may have to give way. That takes another FDB's lock: the caller does it
  // without ours.
  if (!is_full() && !host_tried) return Room::kHostSpent;
  return EvictFor(vport) ? Room::kThere : Room::kNone;
}

// Flushed entries keep their slots until they are reclaimed. A port that goes up and down often could fill the table with many
// times the limit; so near the limit each new entry reclaims some.
bool Fdb::IsCrowded() const {
  const size_t flushed = cohorts_.forgotten();
  const FdbBudget* const budget = options_.budget;
  return flushed != 0 &&
         (cohorts_.live() + flushed >= options_.limit || (budget != nullptr && budget->used() + flushed >= budget->limit()));
}

// Makes room for one more entry of `vport` within the vPort's own limit.
bool Fdb::MakeRoomAt(VPortId vport) {
  const auto has_room = [this, vport]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) { return cohorts_.Held(vport) < LimitOf(vport); };
  if (has_room()) return true;
  SweepSome();
  return has_room() || EvictFrom(vport, vport);
}

// Aged-out and flushed entries go before live ones.
void Fdb::SweepSome() {
  if (!sweep_pays_ && cohorts_.forgotten() == 0 && rooms_made_++ % kSweepEvery != 0) return;
  const size_t before = table_.size();
  Sweep(&evict_at_, kSweepReach);
  sweep_pays_ = table_.size() != before;
}

// The share of `vport` in the common room. Pinned entries count: otherwise a sticky port, which pins all its MACs, would seem
// to hold none and could displace those of all others for good.
size_t Fdb::ShareOf(VPortId vport) const {
  return cohorts_.Held(vport, CohortKind::kDynamic) + cohorts_.Held(vport, CohortKind::kPinned);
}

// Evicts from the vPort that holds most, if it then still holds as many as `vport` has; otherwise from `vport` itself, if it
// has entries that are not pinned. So eviction only makes vPorts more equal, and equal ones leave each other alone.
bool Fdb::EvictFor(VPortId vport) {
  const Cohorts::Holder largest = cohorts_.Largest();
  if (largest.dynamic > ShareOf(vport) + 1) return EvictFrom(largest.vport, vport);
  return cohorts_.Held(vport, CohortKind::kDynamic) != 0 && EvictFrom(vport, vport);
}

// Evicts the newest remembered entry of `victim`. If the vPort keeps inventing addresses, that is one of these and its older
// entries stay. If none is remembered, evicts any entry of it that is found within kEvictionReach buckets.
bool Fdb::EvictFrom(VPortId victim, VPortId vport) {
  const auto is_evictable = [this, victim](const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
    return cohorts_.VPortOf(entry.cohort) == victim && cohorts_.KindOf(entry.cohort) == CohortKind::kDynamic;
  };
  const auto evict = [this, victim, vport](FdbKey key, const MacEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
    Erase(key, entry);
    ++counters_.evicted;
    Tell(Kind::kEvicted, key, victim, vport);
    return true;
  };
  MacEntry entry;
  for (absl::optional<FdbKey> key; (key = cohorts_.TakeNewest(victim)).has_value();) {
    // A remembered key may have left the table, moved away or been pinned since.
    if (table_.Get(*key, &entry) && is_evictable(entry)) return evict(*key, entry);
  }
  FdbKey key;
  const auto wanted = [&is_evictable](FdbKey, const MacEntry& entry)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) { return is_evictable(entry); };
  if (!table_.FindNext(&evict_at_, kEvictionReach, wanted, &key)) return false;
  table_.Get(key, &entry);
  return evict(key, entry);
}

bool Fdb::EvictLargest(size_t least) {
  absl::MutexLock lock(&writer_);
  Begin();
  const Cohorts::Holder largest = cohorts_.Largest();
  return largest.dynamic >= std::max<size_t>(least, 1) && EvictFrom(largest.vport, VPortId::None());
}

}  // namespace eoib
