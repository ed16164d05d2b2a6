// BucketMap has the order in which buckets are processed; MacReader::IsMissFinal has what readers
// do meanwhile.
//
// A step collects all entries that concern the positions of one bucket of the smaller number: those
// whose home is there, wherever they are stored, and those from elsewhere that are stored there. It
// moves the cutoff and inserts them again. For that moment, a few hundred nanoseconds, they are in
// no bucket: the step is announced before it takes the first entry, and ended after it has placed
// the last.
#include "fdb/mac_resizer.h"

#include <algorithm>

#include "vswitch/base/check.h"

namespace eoib {
namespace {

// The table grows by an eighth, so it is never much larger than its entries need. The step is in
// proportion to the size, so the number of times that an entry moves does not depend on it. A table
// of few buckets doubles.
constexpr uint32_t kFewBuckets = 64;
constexpr uint32_t LargerCount(uint32_t count) {
  return count < kFewBuckets ? 2 * count : count + count / 8;
}
constexpr uint32_t SmallerCount(uint32_t count) {
  return count <= kFewBuckets ? count / 2 : count - count / 9;
}

// Load, in entries per hundred slots. Above kGrowAbove a table grows; at 62, one entry in fifteen
// is away from home. Below kShrinkBelow it shrinks, and then is still below kGrowAbove by a margin.
// A table of few buckets is halved, so it must be emptier first.
constexpr size_t kGrowAbove = 62;
constexpr size_t kShrinkBelow = 51;
constexpr size_t kShrinkFewBelow = 30;

// Buckets that each change of the table processes of a resizing in progress. So a resizing ends
// before the next one is due, which is at least 0.3 entries a bucket away. This also keeps up with
// endless erasing: the table loses a sixth of an entry per bucket while it loses a ninth of its
// buckets.
constexpr int kStepsPerChange = 6;

size_t Share(uint64_t buckets, size_t hundredths) {
  return buckets * MacBucket::kSlots * hundredths / 100;
}

}  // namespace

MacResizer::MacResizer(MacStore* store, MacPlacement* placement)
    : store_(store), placement_(placement) {
  for (MacBucket& bucket : store_->stash) InitBucket(&bucket);
  EOIB_CHECK(store_->memory.Grow(kLeastBuckets));
  InitBuckets(0, kLeastBuckets);
  Reshape({kLeastBuckets, kLeastBuckets, BucketMap::kEnd});
}

void MacResizer::ResizeIfDue() {
  const BucketMap now = store_->map();
  if (now.low == now.high) {
    const uint32_t count = now.high;
    const size_t entries = store_->size.load(std::memory_order_relaxed);
    if (entries > Share(count, kGrowAbove)) {
      StartGrowing();
    } else if (count > kLeastBuckets &&
               entries < Share(count, count <= kFewBuckets ? kShrinkFewBelow : kShrinkBelow)) {
      is_growing_ = false;
      Reshape({std::max(SmallerCount(count), kLeastBuckets), count, 0});
    }
  }
  const int steps =
      store_->map().low < kFewBuckets ? static_cast<int>(kFewBuckets) : kStepsPerChange;
  for (int i = 0; i < steps && IsResizing(); ++i) {
    if (!Step()) return;
  }
}

bool MacResizer::StartGrowing() {
  const uint32_t count = store_->map().high;
  const uint32_t larger =
      static_cast<uint32_t>(std::min<size_t>(LargerCount(count), store_->memory.most()));
  if (larger == count || !store_->memory.Grow(larger)) return false;
  is_growing_ = true;
  initialised_from_ = larger;
  Reshape({count, larger, BucketMap::kEnd});
  return true;
}

bool MacResizer::GrowNow() {
  if (!IsResizing() && !StartGrowing()) return false;
  while (IsResizing()) {
    if (!Step()) return false;
  }
  return true;
}

// Does one step, and finishes the resizing if it was the last. False if the stash might not hold
// the step's entries.
bool MacResizer::Step() {
  const BucketMap now = store_->map();
  const uint64_t to =
      is_growing_ ? BucketMap::First(BucketMap::At(now.cutoff - 1, now.low), now.low)
                  : BucketMap::First(uint64_t{BucketMap::At(now.cutoff, now.low)} + 1, now.low);
  CollectEntries({std::min(now.cutoff, to), std::max(now.cutoff, to)});
  if (moving_.size() > MacStore::kStashSlots - store_->stashed()) return false;
  BeginStep(now.cutoff, to);
  for (MacRecord& record : moving_) {
    // Copied again after the announcement: a reader may have marked the entry as seen.
    const MacSlot where = placement_->Locate(record.key);
    record = RecordAt(*where.bucket, where.slot);
    placement_->Remove(where);
  }
  if (is_growing_) {
    // The added buckets that entries can reach from this step on.
    const uint32_t first = std::max(now.low, BucketMap::At(to, now.high));
    InitBuckets(first, initialised_from_);
    initialised_from_ = std::min(initialised_from_, first);
  }
  store_->shape.cutoff.store(to, std::memory_order_relaxed);
  for (const MacRecord& record : moving_)
    EOIB_CHECK(placement_->Insert(record, MacStore::kStashSlots));
  EndStep();
  if (to == (is_growing_ ? 0 : BucketMap::kEnd)) FinishResizing();
  return true;
}

// Fills moving_ with the entries that a step over `range` has to move. They stay in place for now.
void MacResizer::CollectEntries(const PositionRange& range) {
  moving_.clear();
  const auto add = [this](const MacSlot& where) {
    const uint64_t key = where.bucket->Key(where.slot);
    for (const MacRecord& record : moving_) {
      if (record.key == key) return true;
    }
    moving_.push_back(RecordAt(*where.bucket, where.slot));
    return true;
  };
  const BucketMap now = store_->map();
  for (uint64_t at = range.from; at < range.to;) {
    const uint64_t end = std::min(now.EndOfBucket(static_cast<uint32_t>(at)), range.to);
    placement_->VisitHome({at, end}, add);
    MacBucket* const bucket = store_->BucketAt(static_cast<uint32_t>(at));
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      if (bucket->Key(slot) == MacBucket::kNoKey) continue;
      const uint32_t position = store_->hash.Position(bucket->Key(slot));
      if (store_->BucketAt(position) != bucket && range.Has(store_->hash.Detour(position)))
        add({bucket, slot});
    }
    at = end;
  }
}

void MacResizer::FinishResizing() {
  const BucketMap now = store_->map();
  const uint32_t count = is_growing_ ? now.high : now.low;
  Reshape({count, count, BucketMap::kEnd});
  if (!is_growing_) store_->memory.Shrink(count);
}

void MacResizer::InitBucket(MacBucket* bucket) {
  for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
    bucket->keys[slot].store(MacBucket::kNoKey, std::memory_order_relaxed);
    bucket->values[slot].store(MacBucket::kNoValue, std::memory_order_relaxed);
    bucket->seen[slot].store(0, std::memory_order_relaxed);
  }
  // A bucket that comes back gets a later sequence number, so a reader does not mistake it for its
  // former self.
  bucket->head.store((first_sequence_ & MacBucket::kSequenceMask) | MacBucket::kStable,
                     std::memory_order_release);
}

void MacResizer::InitBuckets(uint32_t from, uint32_t to) {
  for (uint32_t index = from; index < to; ++index) InitBucket(store_->memory.buckets() + index);
}

// Publishes the shape. A reader's copy of the fields is consistent if the version before and after
// names the same resizing and is not kReshaping.

void MacResizer::Reshape(const BucketMap& to) {
  const uint64_t number = (store_->shape.version.load(std::memory_order_relaxed) >> 32) + 1;
  store_->shape.version.store(number << 32 | MacShape::kReshaping, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  store_->shape.low.store(to.low, std::memory_order_relaxed);
  store_->shape.high.store(to.high, std::memory_order_relaxed);
  store_->shape.cutoff.store(to.cutoff, std::memory_order_relaxed);
  store_->shape.step_from.store(to.cutoff, std::memory_order_relaxed);
  store_->shape.step_to.store(to.cutoff, std::memory_order_relaxed);
  store_->shape.version.store(number << 32, std::memory_order_release);
  first_sequence_ += 0x10'0000;
}

void MacResizer::BeginStep(uint64_t from, uint64_t to) {
  store_->shape.step_from.store(from, std::memory_order_release);
  store_->shape.step_to.store(to, std::memory_order_release);
  store_->shape.version.store(store_->shape.version.load(std::memory_order_relaxed) + 1,
                              std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);  // visible before the first entry is removed
}

void MacResizer::EndStep() {
  store_->shape.version.store(store_->shape.version.load(std::memory_order_relaxed) + 1,
                              std::memory_order_release);
}

}  // namespace eoib
