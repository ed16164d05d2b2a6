#include "fdb/fdb.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

constexpr bool IsLearned(FdbOrigin origin) { return origin == FdbOrigin::kRemoteLearned || origin == FdbOrigin::kLocalLearned; }

// Between what was learned, the newest wins; else the stronger origin.
constexpr bool Displaces(FdbOrigin newer, FdbOrigin older) { return (IsLearned(newer) && IsLearned(older)) || newer >= older; }

// Ticks are told apart modulo 2^16, and half of that has to stay for entries that nobody has erased yet.
constexpr int64_t kMostAgeingTicks = 28'800;

// Part of a second counts as one: an ageing time that is not zero must not come to mean "never".
int64_t CeilSeconds(absl::Duration duration) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  return std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 0, kMax);
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A second, if that is fine enough. What never ages only has its age shown.
uint32_t TickSeconds(absl::Duration ageing) {
  constexpr uint32_t kMinute = 60;
  const int64_t seconds = CeilSeconds(ageing);
  return seconds == 0 ? kMinute : static_cast<uint32_t>(CeilDivide(seconds, kMostAgeingTicks));
}

uint16_t AgeingTicks(absl::Duration ageing) {
  const int64_t seconds = CeilSeconds(ageing);
  return seconds == 0 ? AgeLimit::kNever : static_cast<uint16_t>(CeilDivide(seconds, TickSeconds(ageing)));
}

constexpr size_t kBucketsAtATime = 64;

bool IsNobodysSource(MacAddr mac) { return mac.IsGroup() || mac.IsZero(); }

}  // namespace

Fdb::Fdb(const Options& options, const Clock* clock)
    : options_(options),
      tick_seconds_(TickSeconds(options.ageing)),
      ageing_ticks_(AgeingTicks(options.ageing)),
      clock_(clock) {}

// An entry lives up to one tick longer than the ageing time, because both times are whole ticks, and never less.
uint16_t Fdb::NowTick() const { return static_cast<uint16_t>(absl::ToUnixSeconds(clock_->Now()) / tick_seconds_); }

void Fdb::Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const { table_.Find(keys, Limit(NowTick()), out); }

size_t Fdb::Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, absl::Span<uint16_t> stale) const {
  return table_.Touch(keys, vports, NowTick(), stale);
}

Fdb::LearnResult Fdb::Learn(FdbKey key, VPortId vport, FdbOrigin origin) {
  if (IsNobodysSource(key.mac())) return {Learned::kGroup, VPortId::None()};
  const uint16_t now = NowTick();
  const MacEntry entry{vport, now, origin};
  absl::MutexLock lock(&writer_);
  MacEntry old;
  const bool there = table_.Get(key, &old);
  if (there && IsLive(old, Limit(now))) return LearnOverEntry(key, old, entry);
  // Entries that aged out count until Age() has erased them: a search for room here would be work that an attacker could ask
  // for with every frame.
  if (!there && table_.size() >= options_.limit) return {Learned::kLimit, VPortId::None()};
  if (!table_.Put(key, entry)) return {Learned::kLimit, VPortId::None()};
  return {Learned::kNew, VPortId::None()};
}

Fdb::LearnResult Fdb::LearnOverEntry(FdbKey key, const MacEntry& old, const MacEntry& entry) {
  const bool same = old.vport == entry.vport;
  if (!Displaces(entry.origin, old.origin)) {
    return same ? LearnResult{Learned::kKnown, VPortId::None()} : LearnResult{Learned::kOverruled, old.vport};
  }
  table_.Put(key, entry);
  return same ? LearnResult{Learned::kKnown, VPortId::None()} : LearnResult{Learned::kMoved, old.vport};
}

absl::Status Fdb::AddStatic(FdbKey key, VPortId vport) {
  if (IsNobodysSource(key.mac())) {
    return absl::InvalidArgumentError(absl::StrCat("add static entry for ", key.mac().ToString(), " in VLAN ",
                                                   key.vid().ToString(), ": a group or zero address is behind no vPort"));
  }
  absl::MutexLock lock(&writer_);
  MacEntry old;
  if (table_.Get(key, &old) && old.origin == FdbOrigin::kStatic && old.vport != vport) {
    return absl::AlreadyExistsError(absl::StrCat("add static entry for ", key.mac().ToString(), " in VLAN ",
                                                 key.vid().ToString(), ": another vPort has one; remove that first"));
  }
  if (!table_.Put(key, {vport, 0, FdbOrigin::kStatic})) {
    return absl::ResourceExhaustedError(absl::StrCat("add static entry for ", key.mac().ToString(), " in VLAN ",
                                                     key.vid().ToString(), ": no room for it in the table"));
  }
  return absl::OkStatus();
}

absl::Status Fdb::RemoveStatic(FdbKey key) {
  absl::MutexLock lock(&writer_);
  MacEntry old;
  if (!table_.Get(key, &old) || old.origin != FdbOrigin::kStatic) {
    return absl::NotFoundError(
        absl::StrCat("remove static entry for ", key.mac().ToString(), " in VLAN ", key.vid().ToString(), ": there is none"));
  }
  table_.Erase(key);
  return absl::OkStatus();
}

// Frames of new sources wait for the lock, so it is held for some buckets at a time.
size_t Fdb::EraseIf(MacTable::Predicate condemned) {
  MacTable::Cursor cursor = 0;
  size_t erased = 0;
  for (bool more = true; more;) {
    absl::MutexLock lock(&writer_);
    more = table_.EraseNext(&cursor, kBucketsAtATime, condemned, &erased);
  }
  return erased;
}

size_t Fdb::Flush() {
  return EraseIf([](FdbKey, const MacEntry& entry) { return IsLearned(entry.origin); });
}

size_t Fdb::FlushLearned(VPortId vport) {
  return EraseIf([vport](FdbKey, const MacEntry& entry) { return entry.vport == vport && IsLearned(entry.origin); });
}

size_t Fdb::FlushVPort(VPortId vport) {
  return EraseIf([vport](FdbKey, const MacEntry& entry) { return entry.vport == vport; });
}

size_t Fdb::Age() {
  if (ageing_ticks_ == AgeLimit::kNever) return 0;
  const AgeLimit limit = Limit(NowTick());
  return EraseIf([limit](FdbKey, const MacEntry& entry) { return !IsLive(entry, limit); });
}

std::vector<Fdb::Entry> Fdb::Dump() const {
  const AgeLimit limit = Limit(NowTick());
  std::vector<Entry> rows;
  const auto add = [&](FdbKey key, const MacEntry& entry) {
    if (!IsLive(entry, limit)) return;
    // A worker may have touched the entry after `now` was read.
    const int age = Ages(entry.origin) ? std::max<int>(static_cast<int16_t>(limit.now - entry.last_seen), 0) : 0;
    rows.push_back({key, entry.vport, entry.origin, absl::Seconds(int64_t{age} * tick_seconds_)});
  };
  MacTable::Cursor cursor = 0;
  for (bool more = true; more;) {
    absl::MutexLock lock(&writer_);
    more = table_.VisitNext(&cursor, kBucketsAtATime, add);
  }
  std::sort(rows.begin(), rows.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return rows;
}

}  // namespace eoib
