#include "fdb/mac_table.h"

#include <algorithm>

#include "vswitch/base/check.h"

namespace eoib {
namespace {

// Positions have 32 bits, and tags should be spread within a bucket.
constexpr size_t kMostBuckets = size_t{1} << 26;
// Address space for more slots than the emptiest table has for as many entries before it shrinks.
constexpr size_t kSlotsPerEntry = 2;

// With this number of buckets or more, a key that finds no place in a half-empty table collides
// with others at the same few positions, and growing would not separate them.
constexpr uint32_t kManyBuckets = 1024;

size_t MostBuckets(size_t most_entries) {
  return std::clamp<size_t>(most_entries / MacBucket::kSlots * kSlotsPerEntry,
                            MacResizer::kLeastBuckets, kMostBuckets);
}

}  // namespace

MacTable::MacTable(const Options& options)
    : store_(options.seed, MostBuckets(options.most_entries), options.most_entries) {}

bool MacTable::Put(FdbKey key, const MacEntry& entry) {
  EOIB_DCHECK(key.packed() >> 60 == 0);
  EOIB_CHECK(store_.groups.Has(entry.group));  // readers index by it without a check
  const MacRecord record = ToRecord(key, entry);
  const MacSlot there = placement_.Locate(record.key);
  if (there.bucket != nullptr) {
    BucketChange(there.bucket).Set(there.slot, record);
    return true;
  }
  while (!placement_.Insert(record, 0)) {
    // A table of few buckets may have no place for a key even if it is far from full. More buckets
    // help.
    const bool should_grow = store_.map().high < kManyBuckets ||
                             size() > size_t{store_.map().high} * MacBucket::kSlots / 2;
    if (should_grow && resizer_.GrowNow()) continue;
    if (!placement_.Insert(record, MacStore::kStashSlotsOfPut)) return false;
    break;
  }
  store_.size.store(size() + 1, std::memory_order_relaxed);
  resizer_.ResizeIfDue();
  return true;
}

bool MacTable::Erase(FdbKey key) {
  const MacSlot there = placement_.Locate(key.packed());
  if (there.bucket == nullptr) return false;
  placement_.Remove(there);
  store_.size.store(size() - 1, std::memory_order_relaxed);
  // The freed slot lets an entry that is away return to its home bucket.
  const uint32_t position = store_.hash.Position(key);
  const bool was_home = store_.BucketAt(position) == there.bucket;
  if (!placement_.IsStash(there.bucket))
    placement_.BringHome(was_home ? position : store_.hash.Detour(position));
  if (store_.stashed() != 0) placement_.EmptyStash();
  resizer_.ResizeIfDue();
  return true;
}

bool MacTable::VisitNext(Cursor* cursor, size_t buckets, Visitor visit) const {
  for (; buckets > 0 && *cursor < BucketMap::kEnd; --buckets) {
    const uint64_t end = store_.map().EndOfBucket(static_cast<uint32_t>(*cursor));
    placement_.VisitHome({*cursor, end}, [&](const MacSlot& where) {
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

size_t MacTable::memory_bytes() const {
  const size_t page = 4096;
  const size_t buckets =
      size_t{store_.shape.high.load(std::memory_order_relaxed)} * sizeof(MacBucket);
  return (buckets + page - 1) / page * page + sizeof(*this);
}

}  // namespace eoib
