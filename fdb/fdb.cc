#include "fdb/fdb.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace eoib {
namespace {

using Scope = FdbEvent::Scope;

// Buckets that one call of Age visits at least.
constexpr size_t kLeastSweep = 256;

void Sort(std::vector<Fdb::Entry>* rows) {
  std::sort(rows->begin(), rows->end(),
            [](const Fdb::Entry& a, const Fdb::Entry& b) { return a.key < b.key; });
}

}  // namespace

Fdb::Fdb(const Options& options, const Clock* clock)
    : options_(options),
      ticks_(options.ageing),
      clock_(clock),
      entries_(&options_, &ticks_, clock, &table_, &log_, &sizes_),
      eviction_(&options_, &entries_),
      learning_(&entries_, &eviction_, clock->Now()),
      assignment_(&entries_, &eviction_),
      aged_(clock->Now()) {}

void Fdb::SetVPortPolicy(VPortId vport, const VPortPolicy& policy) {
  absl::MutexLock lock(&writer_);
  entries_.policies().insert_or_assign(vport, policy);
}

void Fdb::Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const {
  table_.Find(keys, Limit(), out);
}

size_t Fdb::Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports,
                    absl::Span<uint16_t> stale) const {
  return table_.Touch(keys, vports, ticks_.At(clock_->Now()), stale);
}

void Fdb::Watch() {
  if (log_.IsWatched()) return;
  // Before the lock: frames of new sources wait for it.
  auto larger = std::make_unique<FdbEvents>(FdbEventLog::kWatchedEvents);
  absl::MutexLock lock(&writer_);
  log_.Watch(std::move(larger));
}

void Fdb::Note(uint32_t number) {
  absl::MutexLock lock(&writer_);
  FdbEvent note;
  note.nanoseconds = static_cast<uint64_t>(absl::ToUnixNanos(clock_->Now()));
  note.kind = FdbEvent::Kind::kNote;
  note.count = number;
  log_.Write(note);
}

// ---- Changes of entries -------------------------------------------------------------------------

Fdb::LearnResult Fdb::Learn(FdbKey key, VPortId vport, FdbOrigin origin) {
  if (!IsValidSource(key.mac())) return {Learned::kGroup};
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return learning_.Learn(key, vport, origin);
}

bool Fdb::Restore(FdbKey key, VPortId vport, FdbOrigin origin, absl::Duration age) {
  if (!IsValidSource(key.mac())) return false;
  const uint16_t seen = ticks_.At(clock_->Now() - age);
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return learning_.Restore(key, vport, origin, seen).what == Learned::kNew;
}

Fdb::LearnResult Fdb::Assign(FdbKey key, VPortId vport, FdbOrigin origin) {
  if (!IsValidSource(key.mac())) return {Learned::kGroup};
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return assignment_.Assign(key, vport, origin);
}

bool Fdb::Thaw(FdbKey key) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return learning_.Thaw(key);
}

bool Fdb::HasRoom(VPortId vport) const {
  absl::MutexLock lock(&writer_);
  return eviction_.HasRoom(vport);
}

bool Fdb::Withdraw(FdbKey key) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return assignment_.Withdraw(key);
}

absl::Status Fdb::AddStatic(FdbKey key, VPortId vport) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return assignment_.AddStatic(key, vport);
}

absl::Status Fdb::RemoveStatic(FdbKey key) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  return assignment_.RemoveStatic(key);
}

// ---- Flushing and ageing ------------------------------------------------------------------------

size_t Fdb::Flush() {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  const size_t flushed = entries_.groups().FlushAll(EntryKind::kDynamic);
  entries_.ReportFlushed(flushed, Scope::kAll, FdbKey(), VPortId::None());
  return flushed;
}

size_t Fdb::FlushVlan(Vid vid) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  const size_t flushed = entries_.groups().FlushVlan(vid, EntryKind::kDynamic);
  entries_.ReportFlushed(flushed, Scope::kVlan, FdbKey(vid, MacAddr()), VPortId::None());
  return flushed;
}

size_t Fdb::FlushLearned(VPortId vport) { return FlushOf(vport, EntryKind::kDynamic); }

bool Fdb::FlushMac(FdbKey key, VPortId vport) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  const FdbEntries::Known known = entries_.Look(key);
  if (!known.live || known.vport != vport || known.entry.pinned ||
      known.entry.origin == FdbOrigin::kStatic)
    return false;
  entries_.Erase(key, known.entry);
  entries_.ReportFlushed(1, Scope::kEntry, key, vport);
  return true;
}

size_t Fdb::FlushSticky(VPortId vport) { return FlushOf(vport, EntryKind::kPinned); }

size_t Fdb::FlushOf(VPortId vport, EntryKind kind) {
  absl::MutexLock lock(&writer_);
  entries_.BeginChange();
  // A MAC must not be taken back to a vPort that was just flushed.
  entries_.damper().ForgetHome(vport);
  const size_t flushed = entries_.groups().FlushVPort(vport, kind);
  entries_.ReportFlushed(flushed, Scope::kVPort, FdbKey(), vport);
  return flushed;
}

void Fdb::RemoveVPort(VPortId vport) {
  FlushOf(vport, EntryKind::kDynamic);
  FlushOf(vport, EntryKind::kPinned);
  FlushOf(vport, EntryKind::kFixed);
  absl::MutexLock lock(&writer_);
  entries_.policies().erase(vport);
}

void Fdb::Change(const Options& options) {
  absl::MutexLock lock(&writer_);
  options_.ageing = options.ageing;
  options_.limit = options.limit;
  options_.vport_limit = options.vport_limit;
  options_.damping = options.damping;
  ticks_ = FdbTicks(options.ageing);
  entries_.damper().SetOptions(options.damping);
}

size_t Fdb::Age() {
  const absl::Duration round =
      std::clamp(options_.ageing / 10, absl::Seconds(1), absl::Seconds(30));
  size_t quota = 0;
  {
    absl::MutexLock lock(&writer_);
    quota = BeginAge(round);
  }
  size_t aged = 0;
  for (size_t done = 0; done < quota; done += kBucketsAtATime) {
    absl::MutexLock lock(&writer_);
    entries_.BeginChange();
    aged += entries_.Sweep(&age_at_, kBucketsAtATime);
    if (age_at_ == 0 && table_.buckets() <= kBucketsAtATime) break;  // a whole round is done
  }
  return aged;
}

// Ends the freezes that are due. Returns how many buckets to sweep, so that a round through the
// table takes `round`.
size_t Fdb::BeginAge(absl::Duration round) {
  entries_.BeginChange();
  const absl::Duration since = entries_.now() - std::exchange(aged_, entries_.now());
  for (FdbKey key : entries_.damper().Due(entries_.now())) learning_.Thaw(key);
  // If the process was stopped for half a day, ticks have wrapped and the oldest entries would look
  // young again. The oldest are those that had aged out and waited to be reclaimed, for up to a
  // round, or longer if Age was late. So flush all.
  if (since > ticks_.UntilWrap() - 2 * round && ticks_.IsAgeing()) {
    entries_.ReportFlushed(entries_.groups().FlushAll(EntryKind::kDynamic), Scope::kAll, FdbKey(),
                           VPortId::None());
  }
  if (!ticks_.IsAgeing() && entries_.groups().flushed() == 0) return 0;
  const double share = std::min(1.0, absl::FDivDuration(since, round));
  // The last piece of the table may be a small one.
  return std::max(kLeastSweep, static_cast<size_t>(share * static_cast<double>(table_.buckets())) +
                                   kBucketsAtATime);
}

// ---- For the operator ---------------------------------------------------------------------------

Fdb::Entry Fdb::ToRow(FdbKey key, const MacEntry& entry, VPortId vport, AgeLimit limit) const {
  // A worker may have refreshed the entry after `limit.now` was read, which would make its age
  // negative.
  const int age =
      entry.Ages() ? std::max<int>(static_cast<int16_t>(limit.now - entry.last_seen), 0) : 0;
  const bool frozen = entry.pinned && entries_.damper().IsFrozen(key);
  return {key, vport, entry.origin, age * tick(), entry.pinned && !frozen, frozen};
}

absl::optional<Fdb::Entry> Fdb::Get(FdbKey key) const {
  const AgeLimit limit = Limit();
  absl::MutexLock lock(&writer_);
  MacEntry entry;
  if (!table_.Get(key, &entry) || !IsLive(entry, limit)) return absl::nullopt;
  const VPortId vport = entries_.groups().VPortOf(entry.group);
  if (vport.IsNone()) return absl::nullopt;
  return ToRow(key, entry, vport, limit);
}

bool Fdb::VisitLive(MacTable::Cursor* cursor, size_t buckets, AgeLimit limit,
                    absl::FunctionRef<void(const Entry&)> visit) const {
  return table_.VisitNext(cursor, buckets,
                          [&](FdbKey key, const MacEntry& entry)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
                                const VPortId vport = entries_.groups().VPortOf(entry.group);
                                if (!vport.IsNone() && IsLive(entry, limit))
                                  visit(ToRow(key, entry, vport, limit));
                              });
}

void Fdb::Visit(absl::FunctionRef<void(const Entry&)> visit) const {
  const AgeLimit limit = Limit();
  MacTable::Cursor cursor = 0;
  for (bool more = true; more;) {
    absl::MutexLock lock(&writer_);
    more = VisitLive(&cursor, kBucketsAtATime, limit, visit);
  }
}

std::vector<Fdb::Entry> Fdb::Dump() const {
  std::vector<Entry> rows;
  Visit([&rows](const Entry& entry) { rows.push_back(entry); });
  Sort(&rows);
  return rows;
}

Fdb::Part Fdb::DumpPart(absl::optional<FdbKey> after, size_t size) const {
  const AgeLimit limit = Limit();
  Part part;
  MacTable::Cursor cursor = after.has_value() ? table_.CursorAfter(*after) : 0;
  bool more = true;
  while (more && part.entries.size() < size) {
    absl::MutexLock lock(&writer_);
    more = VisitLive(&cursor, 1, limit,
                     [&part](const Entry& entry) { part.entries.push_back(entry); });
  }
  if (more) {
    // The table goes on behind the entry that is last in it, which need not be the last of the
    // sorted ones.
    const auto last = std::max_element(
        part.entries.begin(), part.entries.end(), [this](const Entry& a, const Entry& b) {
          return table_.CursorAfter(a.key) < table_.CursorAfter(b.key);
        });
    part.next = last->key;
  }
  Sort(&part.entries);
  return part;
}

std::vector<Fdb::Holding> Fdb::Holdings() const {
  std::vector<Holding> rows;
  {
    absl::MutexLock lock(&writer_);
    entries_.groups().VisitHolders(
        [&](VPortId vport, const FlushGroups::Counts& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer_) {
          rows.push_back({vport, held[static_cast<size_t>(EntryKind::kDynamic)],
                          held[static_cast<size_t>(EntryKind::kPinned)],
                          held[static_cast<size_t>(EntryKind::kFixed)],
                          std::min(eviction_.LimitOf(vport), options_.limit)});
        });
  }
  std::sort(rows.begin(), rows.end(), [](const Holding& a, const Holding& b) {
    return std::make_pair(b.dynamic, a.vport) < std::make_pair(a.dynamic, b.vport);
  });
  return rows;
}

size_t Fdb::Held(VPortId vport) const {
  absl::MutexLock lock(&writer_);
  return entries_.groups().Held(vport);
}

size_t Fdb::HeldLearned(VPortId vport) const {
  absl::MutexLock lock(&writer_);
  return entries_.groups().Held(vport, EntryKind::kDynamic) +
         entries_.groups().Held(vport, EntryKind::kPinned);
}

absl::flat_hash_map<FdbKey, MoveDamper::Frozen> Fdb::frozen() const {
  absl::MutexLock lock(&writer_);
  return entries_.damper().frozen();
}

absl::flat_hash_set<VPortId> Fdb::DampedVPorts() const {
  absl::flat_hash_set<VPortId> vports;
  absl::MutexLock lock(&writer_);
  entries_.damper().VisitVPorts(clock_->Now(), [&vports](VPortId vport) { vports.insert(vport); });
  return vports;
}

FdbCounters Fdb::counters() const {
  absl::MutexLock lock(&writer_);
  return entries_.counters();
}

}  // namespace eoib
