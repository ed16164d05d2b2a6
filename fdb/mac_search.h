// MacSearch: the stages in which a batch of keys is looked up in the buckets of a MAC table.
//
// A search looks into the home buckets of its keys, and later into the secondary buckets of the few
// keys that are away. It answers from buckets that were stable, and leaves keys in buckets that the
// writer was changing to MacReader.
#ifndef EOIB_FDB_MAC_SEARCH_H_
#define EOIB_FDB_MAC_SEARCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/mac_bucket.h"
#include "fdb/mac_view.h"

namespace eoib {

// Keys of a batch at most: sets of keys are words of 32 bits, a bit each.
constexpr size_t kSearchBatch = 32;

// A batch of keys on its way through the stages.
struct MacBatch {
  const uint64_t* keys;
  size_t count;
  MacView view;
  AgeLimit limit;

  const MacBucket* buckets[kSearchBatch];  // home; secondary for keys found there
  uint64_t heads[kSearchBatch];            // of the home buckets when they were looked into
  // The results, which mean nothing for undecided keys.
  uint32_t* vports;
  uint16_t seen[kSearchBatch];
  // Keys not found; final if the shape has not changed since the view was taken.
  uint32_t missed;
  uint32_t undecided;  // keys in buckets that were being changed

  uint32_t away;  // keys whose home bucket is marked for their tag and does not have them
  const MacBucket* secondaries[kSearchBatch];
};

// Looks for a key in one bucket. Tests have another one, which changes the table between two looks.
struct BucketMatcher {
  // Returns the slot of `key`; if the bucket does not have it, any slot, and sets *absent to 1.
  // Without branches.
  static size_t SlotOf(const MacBucket& bucket, uint64_t key, uint32_t* absent) {
    static_assert(MacBucket::kSlots == 4);
    const bool is_1 = bucket.Key(1) == key, is_2 = bucket.Key(2) == key,
               is_3 = bucket.Key(3) == key;
    const size_t slot = static_cast<size_t>(is_1 | is_3) + 2 * static_cast<size_t>(is_2 | is_3);
    *absent = static_cast<uint32_t>(bucket.Key(static_cast<int>(slot)) != key);
    return slot;
  }
};

// The stages. Between two of them the memory needs time, which a reader spends on other batches
// (MacLookup).
template <typename Matcher>
class MacSearch {
 public:
  // Stage 1: finds the home buckets and prefetches them.
  static void Place(MacBatch* batch) {
    const Placer placer(batch);
    for (size_t i = 0; i < batch->count; ++i) placer.Place(i);
  }
  // Stage 2: looks into the home buckets, and prefetches the secondary buckets of keys that are
  // away. If `next` is not null, it goes through stage 1 meanwhile; then both must have
  // kSearchBatch keys.
  static void LookHome(MacBatch* batch, MacBatch* next) {
    if (next == nullptr) return LookHome(batch, batch->count, [](size_t) {});
    const Placer placer(next);
    LookHome(batch, kSearchBatch, [placer](size_t i) { placer.Place(i); });
  }
  // Stage 3: looks into the secondary buckets, and takes the vPorts away from keys that aged out or
  // were not found.
  static void LookAway(MacBatch* batch);

 private:
  // Finds home buckets. Has copies of the hash and the map, for the compiler to keep in registers.
  class Placer {
   public:
    explicit Placer(MacBatch* batch)
        : hash_(*batch->view.hash), map_(batch->view.map), keys_(batch->keys), batch_(batch) {}
    void Place(size_t i) const {
      const MacBucket* const home = batch_->view.buckets + map_.Index(hash_.Position(keys_[i]));
      batch_->buckets[i] = home;
      __builtin_prefetch(home);
    }

   private:
    const KeyHash hash_;
    const BucketMap map_;
    const uint64_t* const keys_;
    MacBatch* const batch_;
  };

  template <typename PlaceOne>
  static void LookHome(MacBatch* batch, size_t count, PlaceOne place);
  static void FollowMarks(MacBatch* batch, uint32_t missing);
  static void DropMissing(const MacBatch& batch, size_t count);
};

// No branch depends on what is found: some keys in a hundred are away, and a wrong prediction would
// stop the processor from looking ahead. One key of the next batch is placed for each look, because
// the processor has few requests of memory under way at once, and works best if they are evenly
// spread.
template <typename Matcher>
template <typename PlaceOne>
__attribute__((always_inline)) inline void MacSearch<Matcher>::LookHome(MacBatch* batch,
                                                                        size_t count,
                                                                        PlaceOne place) {
  const FlushGroupVPorts::Reader groups = batch->view.groups;
  const uint64_t* const keys = batch->keys;
  uint32_t* const vports = batch->vports;
  uint64_t changed = 0;            // bits in which heads changed during the looks
  uint64_t stable = ~uint64_t{0};  // bits that all heads have
  uint32_t missing = 0;            // the first key is the highest bit
#pragma GCC unroll 4
  for (size_t i = 0; i < count; ++i) {
    place(i);
    const MacBucket& bucket = *batch->buckets[i];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    uint32_t absent;
    const size_t slot = Matcher::SlotOf(bucket, keys[i], &absent);
    missing += missing + absent;
    vports[i] = groups.VPortOf(bucket.values[slot].load(std::memory_order_relaxed));
    batch->seen[i] = bucket.seen[slot].load(std::memory_order_relaxed);
    batch->heads[i] = head;
    stable &= head;
    std::atomic_thread_fence(std::memory_order_acquire);
    changed |= head ^ bucket.head.load(std::memory_order_relaxed);
  }
  const uint32_t all = static_cast<uint32_t>((uint64_t{1} << count) - 1);
  // The writer rarely changes a bucket of a batch, so which one it was is not worth remembering.
  const bool is_decided = changed == 0 && (stable & MacBucket::kStable) != 0;
  batch->undecided = __builtin_expect(is_decided, 1) ? 0 : all;
  FollowMarks(batch, missing);
}

// Prefetches the secondary buckets of missing keys whose home bucket has a mark for their tag. The
// others are not in the table.
template <typename Matcher>
__attribute__((always_inline)) inline void MacSearch<Matcher>::FollowMarks(MacBatch* batch,
                                                                           uint32_t missing) {
  const MacView& view = batch->view;
  batch->away = batch->missed = 0;
  for (; missing != 0; missing &= missing - 1) {
    const size_t i = batch->count - 1 - static_cast<size_t>(__builtin_ctz(missing));
    const uint32_t position = view.hash->Position(batch->keys[i]);
    if (!MacBucket::IsMarked(batch->heads[i], position)) {
      batch->missed |= 1u << i;
      continue;
    }
    batch->away |= 1u << i;
    batch->secondaries[i] = view.buckets + view.map.Index(view.hash->Detour(position));
    __builtin_prefetch(batch->secondaries[i]);
  }
}

template <typename Matcher>
void MacSearch<Matcher>::LookAway(MacBatch* batch) {
  for (uint32_t away = batch->away; away != 0; away &= away - 1) {
    const int i = __builtin_ctz(away);
    const MacBucket& bucket = *batch->secondaries[i];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    uint32_t absent;
    const size_t slot = Matcher::SlotOf(bucket, batch->keys[i], &absent);
    bool is_decided = true;
    if (__builtin_expect(absent == 0, 1)) {
      batch->vports[i] =
          batch->view.groups.VPortOf(bucket.values[slot].load(std::memory_order_relaxed));
      batch->seen[i] = bucket.seen[slot].load(std::memory_order_relaxed);
      batch->buckets[i] = &bucket;
    } else {
      // The key may have moved to the stash, or home (also from the stash) meanwhile. The order of
      // these looks matters.
      const MacBucket& home = *batch->buckets[i];
      is_decided = batch->view.shape->stashed.load(std::memory_order_acquire) == 0;
      Matcher::SlotOf(home, batch->keys[i], &absent);
      is_decided = is_decided && absent != 0 && home.IsStillAt(batch->heads[i]);
      batch->missed |= 1u << i;
    }
    if (__builtin_expect(!is_decided || !bucket.IsStillAt(head), 0)) batch->undecided |= 1u << i;
  }
  batch->count == kSearchBatch ? DropMissing(*batch, kSearchBatch)
                               : DropMissing(*batch, batch->count);
}

// Gives keys that aged out or were not found no vPort. The loops have no branches, so that the
// compiler can use vectors.
template <typename Matcher>
__attribute__((always_inline)) inline void MacSearch<Matcher>::DropMissing(const MacBatch& batch,
                                                                           size_t count) {
  static_assert(FlushGroupVPorts::kNone == ~uint32_t{0}, "a disjunction with it gives it");
  const uint16_t shift = AgeLimit::kNever - batch.limit.now,
                 range = AgeLimit::kNever - batch.limit.most;
  uint16_t over[kSearchBatch], any = 0;
  for (size_t i = 0; i < count; ++i)
    any |= over[i] = AgeLimit::IsOver(batch.seen[i], shift, range) ? 0xffff : 0;
  uint32_t* const vports = batch.vports;
  if (any != 0) {
    for (size_t i = 0; i < count; ++i)
      vports[i] |= static_cast<uint32_t>(static_cast<int16_t>(over[i]));
  }
  for (uint32_t missed = batch.missed; missed != 0; missed &= missed - 1)
    vports[__builtin_ctz(missed)] = FlushGroupVPorts::kNone;
}

}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_H_
