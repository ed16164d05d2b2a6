// Why a lookup never misses an entry that is there all the time: an entry is in its home bucket, in
// its secondary one, or in the stash. If it is not in its home bucket, that bucket is marked with
// the entry's tag. The writer moves an entry by copying it first:
//   home to secondary  write there; then, in one change of the home bucket, erase it and set the
//   mark away to home       write at home, which changes the home bucket's head; then erase it
//   where it was
// A reader looks into the home bucket, then where the mark points, and last checks that the home
// bucket's head is still the same. Only a step of resizing removes entries for a moment; misses in
// its range of positions wait for its end (IsMissFinal).
#include "fdb/mac_reader.h"

#include <algorithm>
#include <thread>

#include "fdb/mac_lookup.h"
#include "vswitch/base/check.h"

namespace eoib {
namespace {

// Up to this number of keys are looked up one by one: a batch would not pay.
constexpr size_t kFewKeys = 4;

}  // namespace

void MacReader::Find(absl::Span<const FdbKey> keys, AgeLimit limit, absl::Span<VPortId> out) const {
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

VPortId MacReader::FindOne(FdbKey key, AgeLimit limit) const {
  // The home bucket nearly always decides.
  const uint32_t position = store_->hash.Position(key);
  const uint64_t version = store_->shape.version.load(std::memory_order_acquire);
  const MacBucket& home = store_->memory.buckets()[store_->map().Index(position)];
  const uint64_t head = home.head.load(std::memory_order_acquire);
  const uint32_t match = home.Match(key.packed());
  if (match != 0) {
    const int slot = __builtin_ctz(match);
    const uint32_t value = home.values[slot].load(std::memory_order_relaxed);
    const uint16_t seen = home.seen[slot].load(std::memory_order_relaxed);
    const uint32_t vport = store_->groups.reader().VPortOf(value);
    if (home.IsStillAt(head)) return limit.IsOver(seen) ? VPortId::None() : VPortId(vport);
  } else if (!MacBucket::IsMarked(head, position) && home.IsStillAt(head) &&
             store_->shape.IsStillAt(version)) {
    return VPortId::None();
  }
  const Sighting sighting = Lookup(key);
  return sighting.found && !limit.IsOver(sighting.record.seen) ? sighting.vport : VPortId::None();
}

size_t MacReader::Touch(absl::Span<const FdbKey> keys, absl::Span<const VPortId> vports,
                        uint16_t now, absl::Span<uint16_t> stale) const {
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
    if (const MacBatch* const done =
            lookup.Take(keys.subspan(next, kSearchBatch), AgeLimit(), room))
      settle(*done);
  }
  while (const MacBatch* const done = lookup.Drain()) settle(*done);
  return stale_count;
}

// Returns a bit mask of the keys of a batch that are behind vports[i].
uint32_t MacReader::TouchBatch(const MacBatch& batch, absl::Span<const VPortId> vports,
                               uint16_t now) const {
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
    // Else the entry has just moved; it is recent anyway.
    if (slot >= 0) batch.buckets[i]->MarkSeen(slot, batch.seen[i], now);
  }
  for (uint32_t rest = uncertain; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const VPortId vport = vports[static_cast<size_t>(i)];
    right |= static_cast<uint32_t>(TouchOne(FdbKey::FromPacked(batch.keys[i]), vport, now)) << i;
  }
  return right;
}

bool MacReader::TouchOne(FdbKey key, VPortId vport, uint16_t now) const {
  const Sighting sighting = Lookup(key);
  if (!sighting.found || sighting.vport != vport) return false;
  if (sighting.record.seen != 0 && sighting.record.seen != now) {
    sighting.bucket->MarkSeen(sighting.slot, sighting.record.seen, now);
  }
  return true;
}

bool MacReader::Get(FdbKey key, MacEntry* entry) const {
  const Sighting sighting = Lookup(key);
  if (sighting.found) *entry = ToEntry(sighting.record);
  return sighting.found;
}

uint32_t MacReader::Uncertain(const MacBatch& batch) const {
  uint32_t uncertain = batch.undecided;
  if (batch.missed == 0 || store_->shape.IsStillAt(batch.view.version)) return uncertain;
  for (uint32_t missed = batch.missed; missed != 0; missed &= missed - 1) {
    const int i = __builtin_ctz(missed);
    if (!IsMissFinal(batch.view, store_->hash.Position(batch.keys[i]))) uncertain |= 1u << i;
  }
  return uncertain;
}

// True if a key of `position` that was not found with `view` was really absent at some moment since
// then. False if a step of resizing has since moved entries of this position or of its detour.
bool MacReader::IsMissFinal(const MacView& view, uint32_t position) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t step_to = store_->shape.step_to.load(std::memory_order_acquire);
  if (store_->shape.IsStillAt(view.version)) return true;
  if (!MacShape::IsSameResizing(view.version,
                                store_->shape.version.load(std::memory_order_relaxed)))
    return false;
  // Within one resizing the cutoff moves in one direction, so all its steps since then lie between
  // these.
  const uint64_t first = std::min({view.step_from, view.map.cutoff, step_to});
  const uint64_t last = std::max({view.step_from, view.map.cutoff, step_to});
  const auto moved = [first, last](uint64_t p) { return p >= first && p < last; };
  return !moved(position) && !moved(store_->hash.Detour(position));
}

// Looks for `key` in `bucket`, at one moment. *head is the head of that moment.
MacReader::Look MacReader::LookInto(const MacBucket& bucket, uint64_t key, uint64_t* head,
                                    Sighting* sighting) const {
  *head = bucket.head.load(std::memory_order_acquire);
  const int slot = bucket.SlotOf(key);
  if (slot >= 0) {
    const uint32_t value = bucket.values[slot].load(std::memory_order_relaxed);
    const uint16_t seen = bucket.seen[slot].load(std::memory_order_relaxed);
    const VPortId vport(store_->groups.reader().VPortOf(value));
    *sighting = {true,
                 &bucket,
                 slot,
                 {key, value, seen, static_cast<uint8_t>(MacBucket::Flags(*head, slot))},
                 vport};
  }
  if (!bucket.IsStillAt(*head)) return Look::kChanging;
  return slot >= 0 ? Look::kFound : Look::kAbsent;
}

MacReader::Sighting MacReader::Lookup(FdbKey key) const {
  const uint32_t position = store_->hash.Position(key);
  Sighting sighting;
  for (int attempt = 1; !LookupOnce(key.packed(), position, &sighting); ++attempt) {
    // The writer is changing this bucket, which takes some tens of nanoseconds unless the writer
    // was preempted.
    if (attempt % 256 == 0) std::this_thread::yield();
  }
  return sighting;
}

// False if something changed during the lookup, so the key may be there although it was not found.
bool MacReader::LookupOnce(uint64_t key, uint32_t position, Sighting* sighting) const {
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
  if (decided(view.buckets[view.map.Index(store_->hash.Detour(position))], &head, &look))
    return sighting->found;
  if (store_->shape.stashed.load(std::memory_order_acquire) != 0) {
    for (const MacBucket& bucket : store_->stash) {
      if (decided(bucket, &head, &look)) return sighting->found;
    }
  }
  return home.IsStillAt(home_head) && IsMissFinal(view, position);
}

}  // namespace eoib
