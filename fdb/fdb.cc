#include "fdb/fdb.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace eoib {
namespace {

constexpr bool IsLearned(FdbOrigin origin) { return origin == FdbOrigin::kRemoteLearned || origin == FdbOrigin::kLocalLearned; }

// Between what was learned, the newest wins; else the stronger origin.
constexpr bool Displaces(FdbOrigin newer, FdbOrigin older) { return (IsLearned(newer) && IsLearned(older)) || newer >= older; }

// Part of a second counts as one: an ageing time that is not zero must not come to mean "never".
uint32_t CeilSeconds(absl::Duration duration) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1)));
  return static_cast<uint32_t>(std::clamp<int64_t>(seconds, 0, kMax));
}

bool IsNobodysSource(MacAddr mac) { return mac.IsGroup() || mac.IsZero(); }

}  // namespace

Fdb::Fdb(const Options& options, const Clock* clock)
    : options_(options), ageing_seconds_(CeilSeconds(options.ageing)), clock_(clock) {}

uint32_t Fdb::NowSeconds() const { return static_cast<uint32_t>(absl::ToUnixSeconds(clock_->Now())); }

// What ages and was last seen before this has aged out. Both times are whole seconds, so an entry lives up to one second longer
// than the ageing time, and never less.
uint32_t Fdb::NotBefore(uint32_t now) const {
  return ageing_seconds_ == 0 || ageing_seconds_ >= now ? 0 : now - ageing_seconds_;
}

bool Fdb::IsLive(const MacEntry& entry, uint32_t now) const { return !Ages(entry.origin) || entry.last_seen >= NotBefore(now); }

void Fdb::Find(absl::Span<const FdbKey> keys, absl::Span<VPortId> out) const {
  table_.Find(keys, NotBefore(NowSeconds()), out);
}

size_t Fdb::Refresh(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, absl::Span<uint16_t> stale) const {
  return table_.Touch(keys, vports, NowSeconds(), stale);
}

Fdb::LearnResult Fdb::Learn(FdbKey key, VPortId vport, FdbOrigin origin) {
  if (IsNobodysSource(key.mac())) return {Learned::kGroup, VPortId::None()};
  const uint32_t now = NowSeconds();
  const MacEntry entry{vport, now, origin};
  absl::MutexLock lock(&writer_);
  MacEntry old;
  const bool there = table_.Get(key, &old);
  if (there && IsLive(old, now)) return LearnOverEntry(key, old, entry);
  // Entries that aged out count until Age() has erased them: a search for room here would be work that an attacker could ask
  // for with every frame.
  if (!there && table_.size() >= options_.limit) return {Learned::kLimit, VPortId::None()};
  table_.Put(key, entry);
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
  table_.Put(key, {vport, NowSeconds(), FdbOrigin::kStatic});
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

size_t Fdb::Flush() {
  absl::MutexLock lock(&writer_);
  return table_.EraseIf([](FdbKey, const MacEntry& entry) { return IsLearned(entry.origin); });
}

size_t Fdb::FlushLearned(VPortId vport) {
  absl::MutexLock lock(&writer_);
  return table_.EraseIf([vport](FdbKey, const MacEntry& entry) { return entry.vport == vport && IsLearned(entry.origin); });
}

size_t Fdb::FlushVPort(VPortId vport) {
  absl::MutexLock lock(&writer_);
  return table_.EraseIf([vport](FdbKey, const MacEntry& entry) { return entry.vport == vport; });
}

size_t Fdb::Age() {
  const uint32_t now = NowSeconds();
  if (NotBefore(now) == 0) return 0;
  absl::MutexLock lock(&writer_);
  return table_.EraseIf([this, now](FdbKey, const MacEntry& entry) { return !IsLive(entry, now); });
}

std::vector<Fdb::Entry> Fdb::Dump() const {
  const uint32_t now = NowSeconds();
  std::vector<Entry> rows;
  table_.ForEach([&](FdbKey key, const MacEntry& entry) {
    if (!IsLive(entry, now)) return;
    // A worker may have touched the entry after `now` was read.
    const uint32_t age = Ages(entry.origin) && entry.last_seen < now ? now - entry.last_seen : 0;
    rows.push_back({key, entry.vport, entry.origin, absl::Seconds(age)});
  });
  std::sort(rows.begin(), rows.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return rows;
}

}  // namespace eoib
