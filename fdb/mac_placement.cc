#include "fdb/mac_placement.h"

#include <algorithm>

namespace eoib {

MacSlot MacPlacement::Locate(uint64_t key) const {
  const uint32_t position = store_->hash.Position(key);
  MacBucket* const home = store_->BucketAt(position);
  int slot = home->SlotOf(key);
  if (slot >= 0) return {home, slot};
  if (!MacBucket::IsMarked(home->Head(), position)) return {};
  MacBucket* const secondary = store_->BucketAt(store_->hash.Detour(position));
  slot = secondary->SlotOf(key);
  if (slot >= 0) return {secondary, slot};
  if (store_->stashed() == 0) return {};
  for (MacBucket& bucket : store_->stash) {
    slot = bucket.SlotOf(key);
    if (slot >= 0) return {&bucket, slot};
  }
  return {};
}

bool MacPlacement::Insert(const MacRecord& record, size_t most_stashed) {
  const uint32_t position = store_->hash.Position(record.key);
  MacBucket* const home = store_->BucketAt(position);
  MacBucket* const secondary = store_->BucketAt(store_->hash.Detour(position));
  if (InsertInto(home, record)) return true;
  if (secondary->SlotOf(MacBucket::kNoKey) < 0 && MakeRoom(home, secondary) &&
      InsertInto(home, record))
    return true;
  if (secondary != home ? !InsertInto(secondary, record) : true) {
    if (store_->stashed() >= most_stashed || !Stash(record)) return false;
  }
  BucketChange(home).Mark(KeyHash::Tag(position));
  return true;
}

bool MacPlacement::InsertInto(MacBucket* bucket, const MacRecord& record) {
  const int slot = bucket->SlotOf(MacBucket::kNoKey);
  if (slot < 0) return false;
  BucketChange(bucket).Set(slot, record);
  return true;
}

// The other bucket of an entry; `bucket` itself if both are the same.
MacBucket* MacPlacement::OtherBucket(const MacBucket* bucket, uint64_t key) const {
  const uint32_t position = store_->hash.Position(key);
  MacBucket* const home = store_->BucketAt(position);
  return home == bucket ? store_->BucketAt(store_->hash.Detour(position)) : home;
}

// Cuckoo hashing, breadth first. Finds the shortest chain of entries, each of which can move to its
// other bucket and the last one into a free slot. Moves them, the last one first, so that `home` or
// `secondary` has a free slot.
bool MacPlacement::MakeRoom(MacBucket* home, MacBucket* secondary) {
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
        if (!MoveOut({nodes[nodes[last].parent].bucket, nodes[last].slot}, nodes[last].bucket))
          return false;
      }
      return true;
    }
  }
  return false;
}

// Moves an entry to its other bucket. False if `to` is not that bucket, or is full.
bool MacPlacement::MoveOut(const MacSlot& from, MacBucket* to) {
  const MacRecord record = RecordAt(*from.bucket, from.slot);
  if (record.key == MacBucket::kNoKey || OtherBucket(from.bucket, record.key) != to ||
      !InsertInto(to, record))
    return false;
  const uint32_t position = store_->hash.Position(record.key);
  if (store_->BucketAt(position) == to) {
    Remove(from);
  } else {
    BucketChange change(from.bucket);
    change.Clear(from.slot);
    change.Mark(KeyHash::Tag(position));
  }
  return true;
}

bool MacPlacement::Stash(const MacRecord& record) {
  for (MacBucket& bucket : store_->stash) {
    if (!InsertInto(&bucket, record)) continue;
    store_->shape.stashed.store(store_->stashed() + 1, std::memory_order_release);
    return true;
  }
  return false;
}

void MacPlacement::Remove(const MacSlot& where) {
  const uint32_t position = store_->hash.Position(where.bucket->Key(where.slot));
  BucketChange(where.bucket).Clear(where.slot);
  if (IsStash(where.bucket))
    store_->shape.stashed.store(store_->stashed() - 1, std::memory_order_release);
  MacBucket* const home = store_->BucketAt(position);
  if (where.bucket == home) return;
  bool last = true;
  VisitAway(HomeRange(position), KeyHash::Tag(position),
            [&last](const MacSlot&) { return last = false; });
  if (last) BucketChange(home).Unmark(KeyHash::Tag(position));
}

// The range of positions of the bucket that has `position`.
PositionRange MacPlacement::HomeRange(uint32_t position) const {
  const BucketMap now = store_->map();
  return {now.StartOfBucket(position), now.EndOfBucket(position)};
}

// Calls `visit` on the entries with this tag that are away from home and whose position is in
// `range`, which lies within one bucket. Stops when `visit` returns false. These entries all took
// the same detour, so they are in the two or three buckets at its end, or in the stash.
void MacPlacement::VisitAway(const PositionRange& range, uint32_t tag,
                             absl::FunctionRef<bool(const MacSlot&)> visit) const {
  const MacBucket* const home = store_->BucketAt(static_cast<uint32_t>(range.from));
  const auto visit_bucket = [&](MacBucket* bucket) {
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      if (bucket->Key(slot) == MacBucket::kNoKey) continue;
      const uint32_t position = store_->hash.Position(bucket->Key(slot));
      if (KeyHash::Tag(position) == tag && range.Has(position) && !visit({bucket, slot}))
        return false;
    }
    return true;
  };
  const BucketMap now = store_->map();
  uint32_t at = static_cast<uint32_t>(range.from) + store_->hash.distance(tag);
  for (uint64_t left = range.to - range.from; left != 0;) {
    MacBucket* const bucket = store_->memory.buckets() + now.Index(at);
    if (bucket != home && !visit_bucket(bucket)) return;
    const uint64_t width = std::min(left, now.EndOfBucket(at) - at);
    at += static_cast<uint32_t>(width);
    left -= width;
  }
  if (store_->stashed() == 0) return;
  for (const MacBucket& bucket : store_->stash) {
    if (!visit_bucket(const_cast<MacBucket*>(&bucket))) return;
  }
}

void MacPlacement::VisitHome(const PositionRange& range,
                             absl::FunctionRef<bool(const MacSlot&)> visit) const {
  MacBucket* const home = store_->BucketAt(static_cast<uint32_t>(range.from));
  for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
    if (home->Key(slot) == MacBucket::kNoKey) continue;
    const uint32_t position = store_->hash.Position(home->Key(slot));
    if (range.Has(position) && store_->BucketAt(position) == home && !visit({home, slot})) return;
  }
  bool more = true;
  for (uint32_t marks = home->Marks(); marks != 0 && more; marks &= marks - 1) {
    VisitAway(range, static_cast<uint32_t>(__builtin_ctz(marks)),
              [&](const MacSlot& slot) { return more = visit(slot); });
  }
}

void MacPlacement::BringHome(uint32_t position) {
  MacBucket* const bucket = store_->BucketAt(position);
  const uint32_t marks = bucket->Marks();
  if (marks == 0) return;
  MacSlot away;
  VisitAway(HomeRange(position), static_cast<uint32_t>(__builtin_ctz(marks)),
            [&away](const MacSlot& slot) {
              away = slot;
              return false;
            });
  if (away.bucket != nullptr && InsertInto(bucket, RecordAt(*away.bucket, away.slot))) Remove(away);
}

void MacPlacement::EmptyStash() {
  for (MacBucket& bucket : store_->stash) {
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      const MacRecord record = RecordAt(bucket, slot);
      if (record.key == MacBucket::kNoKey) continue;
      const uint32_t position = store_->hash.Position(record.key);
      MacBucket* const home = store_->BucketAt(position);
      if (home->SlotOf(MacBucket::kNoKey) < 0) MakeRoom(home, home);
      if (InsertInto(home, record)) Remove({&bucket, slot});
    }
  }
}

}  // namespace eoib
