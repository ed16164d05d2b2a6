// How a MacTable grows and shrinks in place: see BucketMap for the order in which buckets are worked off, and
// MacTable::IsMissFinal for how readers go on meanwhile.
//
// A step takes up all entries that have to do with the positions of one bucket of the smaller number (those whose home is among
// them, wherever they are, and those from elsewhere that are in these buckets), moves the cutoff, and inserts them anew. For
// that moment, a few hundred nanoseconds, they are nowhere: the step is announced before it takes the first, and its end after
// it has placed the last.
#include <algorithm>

#include "fdb/check.h"
#include "fdb/mac_table.h"

namespace eoib {
namespace {

// By an eighth, so that the table is never much larger than its entries need; in proportion to its size, so that the number of
// times that an entry is moved does not depend on it. Few buckets are doubled.
constexpr uint32_t kFewBuckets = 64;
constexpr uint32_t LargerCount(uint32_t count) { return count < kFewBuckets ? 2 * count : count + count / 8; }
constexpr uint32_t SmallerCount(uint32_t count) { return count <= kFewBuckets ? count / 2 : count - count / 9; }

// Entries in a hundred slots. Above the first a table grows: at 62, one entry in fifteen is away from home. Below the second it
// shrinks, to less than the first by a margin. A table of few buckets is halved, so it has to be emptier.
constexpr size_t kGrowAbove = 62;
constexpr size_t kShrinkBelow = 51;
constexpr size_t kShrinkFewBelow = 30;

// Each change of the table works off as many buckets of a resizing under way. It is done before the next one is due, which is
// 0.3 entries a bucket away at least. Erasing without end, a table of which so many are worked off keeps up: while a sixth of
// an entry a bucket goes, a ninth of the buckets does.
constexpr int kStepsPerChange = 6;

size_t Share(uint64_t buckets, size_t hundredths) { return buckets * MacBucket::kSlots * hundredths / 100; }

}  // namespace

// Starts a resizing of the table if one is due, and goes on with the one under way.
void MacTable::ResizeIfDue() {
  const BucketMap now = map();
  if (now.low == now.high) {
    const uint32_t count = now.high;
    if (size() > Share(count, kGrowAbove)) {
      StartGrowing();
    } else if (count > kLeastBuckets && size() < Share(count, count <= kFewBuckets ? kShrinkFewBelow : kShrinkBelow)) {
      growing_ = false;
      Reshape({std::max(SmallerCount(count), kLeastBuckets), count, 0});
    }
  }
  const int steps = map().low < kFewBuckets ? static_cast<int>(kFewBuckets) : kStepsPerChange;
  for (int i = 0; i < steps && IsResizing(); ++i) {
    if (!Step()) return;
  }
}

bool MacTable::StartGrowing() {
  const uint32_t count = map().high;
  const uint32_t larger = static_cast<uint32_t>(std::min<size_t>(LargerCount(count), memory_.most()));
  if (larger == count || !memory_.Grow(larger)) return false;
  growing_ = true;
  fresh_ = larger;
  Reshape({count, larger, BucketMap::kEnd});
  return true;
}

// Ends the resizing under way, or grows the table at once. False if neither is possible.
bool MacTable::GrowNow() {
  if (!IsResizing() && !StartGrowing()) return false;
  while (IsResizing()) {
    if (!Step()) return false;
  }
  return true;
}

// One step, and the end of the resizing if it is the last. False if there may not be room for what the step takes up.
bool MacTable::Step() {
  const BucketMap now = map();
  const uint64_t to = growing_ ? BucketMap::First(BucketMap::At(now.cutoff - 1, now.low), now.low)
                               : BucketMap::First(uint64_t{BucketMap::At(now.cutoff, now.low)} + 1, now.low);
  TakeUp({std::min(now.cutoff, to), std::max(now.cutoff, to)});
  if (hand_.size() > kStashed - stashed()) return false;
  BeginStep(now.cutoff, to);
  for (MacRecord& record : hand_) {
    const Slot where = Locate(record.key);
    record = RecordAt(*where.bucket, where.slot);
    Remove(where);
  }
  if (growing_) {
    const uint32_t first = std::max(now.low, BucketMap::At(to, now.high));
    InitBuckets(first, fresh_);
    fresh_ = std::min(fresh_, first);
  }
  shape_.cutoff.store(to, std::memory_order_relaxed);
  for (const MacRecord& record : hand_) EOIB_CHECK(Insert(record, kStashed));
  EndStep();
  if (to == (growing_ ? 0 : BucketMap::kEnd)) FinishResizing();
  return true;
}

// Fills hand_ with the entries that a step over `range` has to place anew. They stay where they are for now.
void MacTable::TakeUp(const Range& range) {
  hand_.clear();
  const auto add = [this](const Slot& where) {
    const uint64_t key = where.bucket->Key(where.slot);
    for (const MacRecord& record : hand_) {
      if (record.key == key) return true;
    }
    hand_.push_back(RecordAt(*where.bucket, where.slot));
    return true;
  };
  const BucketMap now = map();
  for (uint64_t at = range.from; at < range.to;) {
    const uint64_t end = std::min(now.EndOfBucket(static_cast<uint32_t>(at)), range.to);
    VisitHome({at, end}, add);
    MacBucket* const bucket = BucketAt(static_cast<uint32_t>(at));
    for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
      if (bucket->Key(slot) == MacBucket::kNoKey) continue;
      const uint32_t position = hash_.Position(bucket->Key(slot));
      if (BucketAt(position) != bucket && range.Has(hash_.Detour(position))) add({bucket, slot});
    }
    at = end;
  }
}

void MacTable::FinishResizing() {
  const BucketMap now = map();
  const uint32_t count = growing_ ? now.high : now.low;
  Reshape({count, count, BucketMap::kEnd});
  if (!growing_) memory_.Shrink(count);
}

void MacTable::InitBucket(MacBucket* bucket) {
  for (int slot = 0; slot < MacBucket::kSlots; ++slot) {
    bucket->keys[slot].store(MacBucket::kNoKey, std::memory_order_relaxed);
    bucket->values[slot].store(MacBucket::kNoValue, std::memory_order_relaxed);
    bucket->seen[slot].store(0, std::memory_order_relaxed);
  }
  // Sequence numbers go on from one life of a bucket to the next, so that a reader does not take one for the other.
  bucket->head.store((life_ & MacBucket::kSequenceMask) | MacBucket::kStable, std::memory_order_release);
}

void MacTable::InitBuckets(uint32_t from, uint32_t to) {
  for (uint32_t index = from; index < to; ++index) InitBucket(memory_.buckets() + index);
}

// The shape's protocol. Fields are of one resizing if the version before and after them names it and was not kReshaping.

void MacTable::Reshape(const BucketMap& to) {
  const uint64_t number = (shape_.version.load(std::memory_order_relaxed) >> 32) + 1;
  shape_.version.store(number << 32 | MacShape::kReshaping, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  shape_.low.store(to.low, std::memory_order_relaxed);
  shape_.high.store(to.high, std::memory_order_relaxed);
  shape_.cutoff.store(to.cutoff, std::memory_order_relaxed);
  shape_.step_from.store(to.cutoff, std::memory_order_relaxed);
  shape_.step_to.store(to.cutoff, std::memory_order_relaxed);
  shape_.version.store(number << 32, std::memory_order_release);
  life_ += 0x10'0000;
}

void MacTable::BeginStep(uint64_t from, uint64_t to) {
  shape_.step_from.store(from, std::memory_order_release);
  shape_.step_to.store(to, std::memory_order_release);
  shape_.version.store(shape_.version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);  // all that before the first entry is taken up
}

void MacTable::EndStep() {
  shape_.version.store(shape_.version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// For tests and benchmarks.

size_t MacTable::memory_bytes() const {
  const size_t page = 4096;
  const size_t buckets = size_t{shape_.high.load(std::memory_order_relaxed)} * sizeof(MacBucket);
  return (buckets + page - 1) / page * page + sizeof(*this);
}

MacTable::Occupancy MacTable::MeasureOccupancy() const {
  Occupancy occupancy;
  occupancy.stashed = stashed();
  occupancy.slots = Capacity(map().high);
  Cursor cursor = 0;
  while (cursor < BucketMap::kEnd) {
    const Range range{cursor, map().EndOfBucket(static_cast<uint32_t>(cursor))};
    const MacBucket* const home = BucketAt(static_cast<uint32_t>(cursor));
    VisitHome(range, [&](const Slot& where) {
      ++occupancy.entries;
      occupancy.away += where.bucket != home;
      return true;
    });
    cursor = range.to;
  }
  return occupancy;
}

}  // namespace eoib
