// Lookups and changes. Growing and shrinking is in mac_table_resize.cc.
//
// Why a lookup never misses an entry that is there all the time: an entry is in its primary bucket, in its secondary one, or
// in the stash. If it is not in its primary bucket, that bucket is marked with the entry's tag. The writer moves an entry by
// copying it first:
//   home to secondary  write there; then, in one change of the primary bucket, erase it and set the mark
//   away to home       write at home, which changes the primary's head; then erase it where it was
// A reader looks into the primary bucket, then where the mark points, and last checks that the primary's head is still the
// same. Only a step of resizing removes entries for a moment; misses in its range of positions wait for its end (IsMissFinal).
#include "fdb/mac_table.h"

#include <algorithm>
#include <thread>

#include "fdb/mac_lookup.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

constexpr size_t kMostBuckets = size_t{1} << 26;  // positions have 32 bits, and tags should be spread within a bucket
// Address space for more slots than the emptiest table has for as many entries before it shrinks.
constexpr size_t kSlotsPerEntry = 2;

// Up to so many keys are looked up one by one: a batch would not pay.
constexpr size_t kFewKeys = 4;

// With so many buckets or more, a key that finds no place in a half-empty table collides with others at the same few
// positions, and growing would not separate them.
constexpr uint32_t kManyBuckets = 1024;

constexpr uint8_t kPinnedFlag = 8;

constexpr uint8_t ToFlags(const MacEntry& entry) {
  return static_cast<uint8_t>(static_cast<uint8_t>(entry.origin) | (entry.pinned ? kPinnedFlag : 0));
}

MacRecord ToRecord(FdbKey key, const MacEntry& entry) {
  const uint16_t seen = entry.Ages() ? std::max<uint16_t>(entry.last_seen, 1) : 0;
  return {key.packed(), entry.cohort.value(), seen, ToFlags(entry)};
}

MacEntry ToEntry(const MacRecord& record) {
  return {CohortId(record.value), record.seen, static_cast<FdbOrigin>(record.flags & (kPinnedFlag - 1)),
          (record.flags & kPinnedFlag) != 0};
}

}  // namespace

MacTable::MacTable(const Options& options)
    : hash_(options.seed),
      memory_(std::clamp<size_t>(options.most_entries / MacBucket::kSlots * kSlotsPerEntry, kLeastBuckets, kMostBuckets)),
      cohorts_(options.most_entries) {
  for (MacBucket& bucket : stash_) InitBucket(&bucket);
  EOIB_CHECK(memory_.Grow(kLeastBuckets));
  InitBuckets(0, kLeastBuckets);
  Reshape({kLeastBuckets, kLeastBuckets, BucketMap::kEnd});
}

// Readers.

void MacTable::Find(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) const {
  EOIB_DCHECK(out.size() >= keys.size());
  if (keys.size() <= kFewKeys) {
    for (size_t i = 0; i < keys.size(); ++i) out[i] = FindOne(keys[i], limit);
    return;
  }
  MacLookup lookup(this);
  for (size_t at = 0; at < keys.size(); at += kSearchBatch) {
    lookup.Ask(keys.subspan(at, kSearchBatch), limit, out.subspan(at));
  }
  lookup.Finish();
}

void MacTable::Prefetch(absl::Span<const FdbKey> keys) const {
  MacLookup lookup(this);
  for (size_t at = 0; at < keys.size(); at += kSearchBatch) lookup.Place(keys.subspan(at, kSearchBatch));
}

VPortId MacTable::FindOne(FdbKey key, AgeLimit limit) const {
  // The home bucket nearly always decides.
  const uint32_t position = hash_.Position(key);
  const uint64_t version = shape_.version.load(std::memory_order_acquire);
  const MacBucket& home = memory_.buckets()[map().Index(position)];
  const uint64_t head = home.head.load(std::memory_order_acquire);
  const uint32_t match = home.Match(key.packed());
  if (match != 0) {
    const int slot = __builtin_ctz(match);
    const uint32_t value = home.values[slot].load(std::memory_order_relaxed);
    const uint16_t seen = home.seen[slot].load(std::memory_order_relaxed);
    const uint32_t vport = cohorts_.reader().VPortOf(value);
    if (home.IsStillAt(head)) return limit.IsOver(seen) ? VPortId::None() : VPortId(vport);
  } else if (!MacBucket::IsMarked(head, position) && home.IsStillAt(head) && shape_.IsStillAt(version)) {
    return VPortId::None();
  }
  const Sighting sighting = Lookup(key);
  return sighting.found && !limit.IsOver(sighting.record.seen) ? sighting.vport : VPortId::None();
}

size_t MacTable::Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports, uint16_t now,
                       absl::Span<uint16_t> stale) const {
  EOIB_DCHECK(vports.size() >= keys.size() && stale.size() >= keys.size() && keys.size() <= 65536);
  now = std::max<uint16_t>(now, 1);
  size_t at = 0, stale_count = 0;
  const auto settle = [&](const MacBatch& batch) {
    const uint32_t right = TouchBatch(batch, vports.subspan(at), now);
    for (size_t i = 0; i < batch.count; ++i) {
      stale[stale_count] = static_cast<uint16_t>(at + i);
      stale_count += (right >> i & 1) == 0;
    }
    at += batch.count;
  };
  MacLookup lookup(this);
  uint32_t found[3][kSearchBatch];  // three batches are under way at most
  for (size_t next = 0; next < keys.size(); next += kSearchBatch) {
    uint32_t* const room = found[next / kSearchBatch % 3];
    if (const MacBatch* const done = lookup.Take(keys.subspan(next, kSearchBatch), AgeLimit(), room)) settle(*done);
  }
  while (const MacBatch* const done = lookup.Drain()) settle(*done);
  return stale_count;
}

// Returns a bit mask of the keys of a batch that are behind vports[i].
uint32_t MacTable::TouchBatch(const MacBatch& batch, absl::Span<const VPortId> vports, uint16_t now) const {
  const uint32_t uncertain = Uncertain(batch);
  uint32_t right = 0, older = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    const uint16_t seen = batch.seen[i];
    right |= static_cast<uint32_t>(VPortId(batch.vports[i]) == vports[i]) << i;
    older |= static_cast<uint32_t>(seen != now && seen != 0) << i;
  }
  right &= ~(batch.missed | uncertain);
  for (uint32_t marked = right & older; marked != 0; marked &= marked - 1) {
    const int i = __builtin_ctz(marked);
    const int slot = batch.buckets[i]->SlotOf(batch.keys[i]);
    if (slot >= 0) batch.buckets[i]->MarkSeen(slot, batch.seen[i], now);  // else the entry has just moved; it is recent anyway
  }
  for (uint32_t rest = uncertain; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const VPortId vport = vports[static_cast<size_t>(i)];
    right |= static_cast<uint32_t>(TouchOne(FdbKey::FromPacked(batch.keys[i]), vport, now)) << i;
  }
  return right;
}

bool MacTable::TouchOne(FdbKey key, VPortId vport, uint16_t now) const {
  const Sighting sighting = Lookup(key);
  if (!sighting.found || sighting.vport != vport) return false;
  if (sighting.record.seen != 0 && sighting.record.seen != now) {
    sighting.bucket->MarkSeen(sighting.slot, sighting.record.seen, now);
  }
  return true;
}

bool MacTable::Get(FdbKey key, MacEntry* entry) const {
  const Sighting sighting = Lookup(key);
  if (sighting.found) *entry = ToEntry(sighting.record);
  return sighting.found;
}

// A bit mask of the keys of a batch that must be looked up again, one by one.
uint32_t MacTable::Uncertain(const MacBatch& batch) const {
  uint32_t uncertain = batch.undecided;
  if (batch.missed == 0 || shape_.IsStillAt(batch.view.version)) return uncertain;
  for (uint32_t missed = batch.missed; missed != 0; missed &= missed - 1) {
    const int i = __builtin_ctz(missed);
    if (!IsMissFinal(batch.view, hash_.Position(batch.keys[i]))) uncertain |= 1u << i;
  }
  return uncertain;
}

// True if a key of `position` that was not found with `view` was really absent at some moment since then. False if a step of
// resizing has since moved entries of this position or of its detour.
bool MacTable::IsMissFinal(const MacView& view, uint32_t position) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t step_to = shape_.step_to.load(std::memory_order_acquire);
  if (shape_.IsStillAt(view.version)) return true;
  if (!MacShape::IsSameResizing(view.version, shape_.version.load(std::memory_order_relaxed))) return false;
  // Within one resizing the cutoff moves in one direction, so all its steps since then lie between these.
  const uint64_t first = std::min({view.step_from, view.map.cutoff, step_to});
  const uint64_t last = std::max({view.step_from, view.map.cutoff, step_to});
  const auto moved = [first, last](uint64_t p) { return p >= first && p < last; };
  return !moved(position) && !moved(hash_.Detour(position));
}

// Looks for `key` in `bucket`, at one moment. *head is the head of that moment.
MacTable::Look MacTable::LookInto(const MacBucket& bucket, uint64_t key, uint64_t* head, Sighting* sighting) const {
  *head = bucket.head.load(std::memory_order_acquire);
  const int slot = bucket.SlotOf(key);
  if (slot >= 0) {
    const uint32_t value = bucket.values[slot].load(std::memory_order_relaxed);
    const uint16_t seen = bucket.seen[slot].load(std::memory_order_relaxed);
    const VPortId vport(cohorts_.reader().VPortOf(value));
    *sighting = {true, &bucket, slot, {key, value, seen, static_cast<uint8_t>(MacBucket::Flags(*head, slot))}, vport};
  }
  if (!bucket.IsStillAt(*head)) return Look::kChanging;
  return slot >= 0 ? Look::kFound : Look::kAbsent;
}

MacTable::Sighting MacTable::Lookup(FdbKey key) const {
  const uint32_t position = hash_.Position(key);
  Sighting sighting;
  for (int attempt = 1; !LookupOnce(key.packed(), position, &sighting); ++attempt) {
    // The writer is changing this bucket. That takes some tens of nanoseconds, unless it was preempted.
    if (attempt % 256 == 0) std::this_thread::yield();
  }
  return sighting;
}

// False if something changed during the lookup, so the key may be there although it was not found.
bool MacTable::LookupOnce(uint64_t key, uint32_t position, Sighting* sighting) const {
  const MacView view = View();
  sighting->found = false;
  uint64_t home_head;
  const auto decided = [&](const MacBucket& bucket, uint64_t* head, Look* look) {
    *look = LookInto(bucket, key, head, sighting);
    sighting->found = *look == Look::kFound;
    return *look != Look::kAbsent;
  };
  Look look;
  const MacBucket& home = view.buckets[view.map.Index(position)];
  if (decided(home, &home_head, &look)) return sighting->found;
  if (!MacBucket::IsMarked(home_head, position)) return IsMissFinal(view, position);
  uint64_t head;
  if (decided(view.buckets[view.map.Index(hash_.Detour(position))], &head, &look)) return sighting->found;
  if (shape_.stashed.load(std::memory_order_acquire) != 0) {
    for (const MacBucket& bucket : stash_) {
      if (decided(bucket, &head, &look)) return sighting->found;
    }
  }
  return home.IsStillAt(home_head) && IsMissFinal(view, position);
}

// The writer.

MacTable::Slot MacTable::Locate(uint64_t key) const {
  const uint32_t position = hash_.Position(key);
  MacBucket* const home = BucketAt(position);
  int slot = home->SlotOf(key);
  if (slot >= 0) return {home, slot};
  if (!MacBucket::IsMarked(home->Head(), position)) return {};
  MacBucket* const secondary = BucketAt(hash_.Detour(position));
  slot = secondary->SlotOf(key);
  if (slot >= 0) return {secondary, slot};
  if (stashed() == 0) return {};
  for (MacBucket& bucket : stash_) {
    slot = bucket.SlotOf(key);
    if (slot >= 0) return {&bucket, slot};
  }
  return {};
}

bool MacTable::Put(FdbKey key, const MacEntry& entry) {
  EOIB_DCHECK(key.packed() >> 60 == 0);
  EOIB_CHECK(cohorts_.Has(entry.cohort));  // readers index by it without a check
  const MacRecord record = ToRecord(key, entry);
  const Slot there = Locate(record.key);
  if (there.bucket != nullptr) {
    BucketChange(there.bucket).Set(there.slot, record);
    return true;
  }
  while (!Insert(record, 0)) {
    // A table of few buckets may have no place for a key even if it is far from full. More buckets help.
    const bool should_grow = map().high < kManyBuckets || size() > Capacity(map().high) / 2;
    if (should_grow && GrowNow()) continue;
    if (!Insert(record, kStashed - kStashedByStep)) return false;
    break;
  }
  size_.store(size() + 1, std::memory_order_relaxed);
  ResizeIfDue();
  return true;
}

bool MacTable::Erase(FdbKey key) {
  const Slot there = Locate(key.packed());
  if (there.bucket == nullptr) return false;
  Remove(there);
  size_.store(size() - 1, std::memory_order_relaxed);
  const uint32_t position = hash_.Position(key);
  // The freed slot lets an entry that is away return to its home bucket.
  if (!IsStash(there.bucket)) BringHome(BucketAt(position) == there.bucket ? position : hash_.Detour(position));
  if (stashed() != 0) EmptyStash();
  ResizeIfDue();
  return true;
}

// Places an entry that is not in the table: at home, else in its secondary bucket, after making room if needed; else in the
// stash, if that holds fewer than `most_stashed` entries.
bool MacTable::Insert(const MacRecord& record, size_t most_stashed) {
  const uint32_t position = hash_.Position(record.key);
  MacBucket* const home = BucketAt(position);
  MacBucket* const secondary = BucketAt(hash_.Detour(position));
  if (InsertInto(home, record)) return true;
  if (secondary->SlotOf(MacBucket::kNoKey) < 0 && MakeRoom(home, secondary) && InsertInto(home, record)) return true;
  if (secondary != home ? !InsertInto(secondary, record) : true) {
    if (stashed() >= most_stashed || !Stash(record)) return false;
  }
  BucketChange(home).Mark(KeyHash::Tag(position));
  return true;
}

bool MacTable::InsertInto(MacBucket* bucket, const MacRecord& record) {
  const int slot = bucket->SlotOf(MacBucket::kNoKey);
  if (slot < 0) return false;
  BucketChange(bucket).Set(slot, record);
  return true;
}

// The other bucket of an entry; `bucket` itself if both are the same.
MacBucket* MacTable::OtherBucket(const MacBucket* bucket, uint64_t key) const {
  const uint32_t position = hash_.Position(key);
  MacBucket* const home = BucketAt(position);
  return home == bucket ? BucketAt(hash_.Detour(position)) : home;
}

// Cuckoo hashing, breadth first. Finds the shortest chain of entries, each of which can move to its other bucket and the last
// one into a free slot. Moves them, the last one first, so that `home` or `secondary` has a free slot.
bool MacTable::MakeRoom(MacBucket* home, MacBucket* secondary) {
  struct Node {
    MacBucket* bucket;
    int parent;  // node whose entry in `slot` would move to `bucket`
    int slot;
  };
  constexpr int kMostNodes = 160;
  Node nodes[kMostNodes];
  int count = 0;
  nodes[count++] = {home, -1, 0};
  if (secondary != home) nodes[count++] = {secondary, -1, 0};
  for (int i = 0; i < count; ++i) {
    for (int slot = 0; slot < MacBucket::kSlots && count < kMostNodes; ++slot) {
      MacBucket* const other = OtherBucket(nodes[i].bucket, nodes[i].bucket->Key(slot));
      // In a small table both places of a key may be one bucket.
      if (other == nodes[i].bucket) continue;
      nodes[count] = {other, i, slot};
      if (other->SlotOf(MacBucket::kNoKey) < 0) {
        ++count;
        continue;
      }
      for (int last = count; nodes[last].parent >= 0; last = nodes[last].parent) {
        // A chain that crosses itself ends here. The entries moved so far are in valid places.
        if (!MoveOut({nodes[nodes[last].parent].bucket, nodes[last].slot}, nodes[last].bucket)) return false;
      }
      return true;
    }
  }
  return false;
}

// Moves an entry to its other bucket. False if `to` is not that bucket, or is full.
bool MacTable::MoveOut(const Slot& from, MacBucket* to) {
  const MacRecord record = RecordAt(*from.bucket, from.slot);
  if (record.key == MacBucket::kNoKey || OtherBucket(from.bucket, record.key) != to || !InsertInto(to, record)) return false;
  const uint32_t position = hash_.Position(record.key);
  if (BucketAt(position) == to) {
    Remove(from);
  } else {
    BucketChange change(from.bucket);
    change.Clear(from.slot);
    change.Mark(KeyHash::Tag(position));
  }
  return true;
}

bool MacTable::Stash(const MacRecord& record) {
  for (MacBucket& bucket : stash_) {
    if (!InsertInto(&bucket, record)) continue;
    shape_.stashed.store(stashed() + 1, std::memory_order_release);
    return true;
  }
  return false;
}

// Removes an entry, and its mark if no other entry with its tag is away from that home.
void MacTable::Remove(const Slot& where) {
  const uint32_t position = hash_.Position(where.bucket->Key(where.slot));
  BucketChange(where.bucket).Clear(where.slot);
  if (IsStash(where.bucket)) shape_.stashed.store(stashed() - 1, std::memory_order_release);
  MacBucket* const home = BucketAt(position);
  if (where.bucket == home) return;
  bool last = true;
  VisitAway(HomeRange(position), KeyHash::Tag(position), [&last](const Slot&) { return last = false; });
  if (last) BucketChange(home).Unmark(KeyHash::Tag(position));
}

// The range of positions of the bucket that has `position`.
MacTable::Range MacTable::HomeRange(uint32_t position) const {
  const BucketMap now = map();
  return {now.StartOfBucket(position), now.EndOfBucket(position)};
}

// Calls `visit` on the entries with this tag that are away from home and whose position is in `range`, which lies within one
// bucket. Stops when `visit` returns false. These entries all took the same detour, so they are in the two or three buckets at
// its end, or in the stash.
void MacTable::VisitAway(const Range& range, uint32_t tag, absl::FunctionRef<bool(const Slot&)> visit) const {
  const MacBucket* const home = BucketAt(static_cast<uint32_t>(range.from));
  const auto visit_bucket = [&](MacBucket* bucket) {
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      if (bucket->Key(slot) == MacBucket::kNoKey) continue;
      const uint32_t position = hash_.Position(bucket->Key(slot));
      if (KeyHash::Tag(position) == tag && range.Has(position) && !visit({bucket, slot})) return false;
    }
    return true;
  };
  const BucketMap now = map();
  uint32_t at = static_cast<uint32_t>(range.from) + hash_.distance(tag);
  for (uint64_t left = range.to - range.from; left != 0;) {
    MacBucket* const bucket = memory_.buckets() + now.Index(at);
    if (bucket != home && !visit_bucket(bucket)) return;
    const uint64_t width = std::min(left, now.EndOfBucket(at) - at);
    at += static_cast<uint32_t>(width);
    left -= width;
  }
  if (stashed() == 0) return;
  for (const MacBucket& bucket : stash_) {
    if (!visit_bucket(const_cast<MacBucket*>(&bucket))) return;
  }
}

// Calls `visit` on the entries whose position is in `range`, which lies within one bucket, wherever they are stored.
void MacTable::VisitHome(const Range& range, absl::FunctionRef<bool(const Slot&)> visit) const {
  MacBucket* const home = BucketAt(static_cast<uint32_t>(range.from));
  for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
    if (home->Key(slot) == MacBucket::kNoKey) continue;
    const uint32_t position = hash_.Position(home->Key(slot));
    if (range.Has(position) && BucketAt(position) == home && !visit({home, slot})) return;
  }
  bool more = true;
  for (uint32_t marks = home->Marks(); marks != 0 && more; marks &= marks - 1) {
    VisitAway(range, static_cast<uint32_t>(__builtin_ctz(marks)), [&](const Slot& slot) { return more = visit(slot); });
  }
}

// A slot of the bucket of `position` became free: moves in one entry that is away from this home.
void MacTable::BringHome(uint32_t position) {
  MacBucket* const bucket = BucketAt(position);
  const uint32_t marks = bucket->Marks();
  if (marks == 0) return;
  Slot away;
  VisitAway(HomeRange(position), static_cast<uint32_t>(__builtin_ctz(marks)), [&away](const Slot& slot) {
    away = slot;
    return false;
  });
  if (away.bucket != nullptr && InsertInto(bucket, RecordAt(*away.bucket, away.slot))) Remove(away);
}

// Moves entries from the stash to their home buckets where there is room.
void MacTable::EmptyStash() {
  for (MacBucket& bucket : stash_) {
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      const MacRecord record = RecordAt(bucket, slot);
      if (record.key == MacBucket::kNoKey) continue;
      const uint32_t position = hash_.Position(record.key);
      MacBucket* const home = BucketAt(position);
      if (home->SlotOf(MacBucket::kNoKey) < 0) MakeRoom(home, home);
      if (InsertInto(home, record)) Remove({&bucket, slot});
    }
  }
}

// Walks with a cursor.

bool MacTable::VisitNext(Cursor* cursor, size_t buckets, Visitor visit) const {
  for (; buckets > 0 && *cursor < BucketMap::kEnd; --buckets) {
    const uint64_t end = map().EndOfBucket(static_cast<uint32_t>(*cursor));
    VisitHome({*cursor, end}, [&](const Slot& where) {
      const MacRecord record = RecordAt(*where.bucket, where.slot);
      visit(FdbKey::FromPacked(record.key), ToEntry(record));
      return true;
    });
    *cursor = end;
  }
  if (*cursor < BucketMap::kEnd) return true;
  *cursor = 0;
  return false;
}

bool MacTable::EraseNext(Cursor* cursor, size_t buckets, Predicate condemned, size_t* erased) {
  for (; buckets > 0; --buckets) {
    condemned_.clear();
    const bool more = VisitNext(cursor, 1, [&](FdbKey key, const MacEntry& entry) {
      if (condemned(key, entry)) condemned_.push_back(key);
    });
    for (FdbKey key : condemned_) *erased += Erase(key);
    if (!more) return false;
  }
  return true;
}

bool MacTable::FindNext(Cursor* cursor, size_t buckets, Predicate wanted, FdbKey* key) const {
  for (; buckets > 0; --buckets) {
    bool found = false;
    const Cursor before = *cursor;
    VisitNext(cursor, 1, [&](FdbKey candidate, const MacEntry& entry) {
      if (found || !wanted(candidate, entry)) return;
      found = true;
      *key = candidate;
    });
    if (!found) continue;
    *cursor = before;
    return true;
  }
  return false;
}

size_t MacTable::EraseIf(Predicate condemned) {
  Cursor cursor = 0;
  size_t erased = 0;
  while (EraseNext(&cursor, 1024, condemned, &erased)) {
  }
  return erased;
}

void MacTable::ForEach(Visitor visit) const {
  Cursor cursor = 0;
  while (VisitNext(&cursor, 1024, visit)) {
  }
}

}  // namespace eoib
