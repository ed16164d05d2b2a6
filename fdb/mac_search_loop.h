// The loop of a search, compiled once for each kind with that kind's instructions; to be included by mac_search_*.cc only. All
// of it has internal linkage, so that the linker never takes one kind's code for another's.
//
// A kind has:
//   Way: of a view what Place needs, in registers;
//   Place(way, batch, from): positions and primary buckets of the group of keys from `from` on;
//   Match(bucket, key): the set of slots that have `key`, a bit each.
//
// While one batch is looked at, the next one's lines are asked for, one by one in turn. A processor has some 250 instructions
// under way; with one request in each 40 of them it always has several out, which are as many as it can translate addresses
// for. Eight requests in a row, and then eight looks, took a tenth longer at ten million entries (AMD EPYC, Zen 3, 2026-11-22).
//
// Vector loads race with the writer's stores, which C++ does not define. What is relied on is x86's: loads are not reordered
// with loads, so what a vector load returns lies between the two loads of the head around it; the compiler keeps that order
// because of the acquire load before and the fence after; and a word that changed in between, torn or not, goes with a head
// that changed too. With ThreadSanitizer only the plain kind is built, which reads each word as the atomic that it is.
#ifndef EOIB_FDB_MAC_SEARCH_LOOP_H_
#define EOIB_FDB_MAC_SEARCH_LOOP_H_

#include "fdb/mac_search.h"

namespace eoib {

// What the kinds' files define. Null if the build does not have it. Constants, because code in those files may not run
// everywhere.
extern const MacSearch* const kPlainSearch;
extern const MacSearch* const kAvx2Search;
extern const MacSearch* const kAvx512Search;

namespace {

// What is to be known of the keys looked at so far.
struct LookSums {
  uint64_t changed = 0;            // bits in which heads changed while their buckets were looked at
  uint64_t stable = ~uint64_t{0};  // bits that all heads have
  uint32_t missing = 0;            // keys that were not found, a bit each
};

// The lowest slot of a set; the last one of none. The compiler does not see that it is small, and so adds to it in addresses.
inline size_t SlotOrLast(uint32_t match) {
  size_t slot = static_cast<size_t>(__builtin_ctz(match | 1u << (MacBucket::kSlots - 1)));
  asm("" : "+r"(slot));
  return slot;
}

// Shifts *set and adds whether `match` is none.
inline void AddIfZero(uint32_t match, uint32_t* set) {
#if defined(__x86_64__)
  asm("cmpl $1, %1\n\tadcl %0, %0" : "+r"(*set) : "r"(match) : "cc");  // the borrow is the bit
#else
  *set += *set + static_cast<uint32_t>(match == 0);
#endif
}

// No branch depends on what is found: a few in a hundred keys are not at home, which ones cannot be predicted, and after a
// wrong guess the processor would have to begin anew to look ahead. From the group's last key to its first, because each shifts
// those before it to their bits.
template <typename Kind>
__attribute__((always_inline)) inline void LookAtGroup(MacBatch* batch, MacBatch* next, const uint64_t* keys,
                                                       CohortVPorts::Reader cohorts, size_t from, LookSums* sums) {
  uint32_t missing = 0;
#pragma GCC unroll 8
  for (size_t j = 1; j <= kSearchGroup; ++j) {
    const size_t i = from + kSearchGroup - j;
    if (next != nullptr) __builtin_prefetch(next->buckets[i]);
    const MacBucket& bucket = *batch->buckets[i];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    const uint32_t match = Kind::Match(bucket, keys[i]);
    const size_t slot = SlotOrLast(match);
    batch->vports[i] = cohorts.VPortOf(bucket.values[slot].load(std::memory_order_relaxed));
    batch->seen[i] = bucket.seen[slot].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    sums->changed |= head ^ bucket.head.load(std::memory_order_relaxed);
    sums->stable &= head;
    AddIfZero(match, &missing);
    asm("" : "+r"(sums->changed), "+r"(sums->stable), "+r"(missing));  // now: kept for later, they would be spilled
  }
  sums->missing |= missing << from;
}

// Groups in the order of memory, which the processor foresees.
template <typename Kind>
__attribute__((always_inline)) inline LookSums LookAtHomes(MacBatch* batch, MacBatch* next, size_t count) {
  const uint64_t* const keys = batch->keys;
  const CohortVPorts::Reader cohorts = batch->view.cohorts;
  const typename Kind::Way way(next != nullptr ? next->view : batch->view);
  LookSums sums;
  for (size_t at = 0; at < count; at += kSearchGroup) {
    if (next != nullptr) Kind::Place(way, next, at);
    LookAtGroup<Kind>(batch, next, keys, cohorts, at, &sums);
  }
  return sums;
}

constexpr size_t RoundUp(size_t count) { return (count + kSearchGroup - 1) / kSearchGroup * kSearchGroup; }
constexpr uint32_t SetOf(size_t count) { return static_cast<uint32_t>((uint64_t{1} << count) - 1); }

template <typename Kind>
void PlaceBatch(MacBatch* batch) {
  const typename Kind::Way way(batch->view);
  for (size_t at = 0; at < RoundUp(batch->count); at += kSearchGroup) Kind::Place(way, batch, at);
  for (size_t i = 0; i < batch->count; ++i) __builtin_prefetch(batch->buckets[i]);
}

// Looks once more at the homes of keys that were not found: whether they are marked, and so where else to look.
template <typename Kind>
__attribute__((always_inline)) inline void FollowMarks(MacBatch* batch, uint32_t missing) {
  const MacView& view = batch->view;
  for (; missing != 0; missing &= missing - 1) {
    const int i = __builtin_ctz(missing);
    const uint32_t position = static_cast<uint32_t>(batch->positions[i]);
    const MacBucket& home = *batch->buckets[i];
    const uint64_t head = batch->heads[i] = home.head.load(std::memory_order_acquire);
    const bool came = Kind::Match(home, batch->keys[i]) != 0;  // meanwhile
    if (__builtin_expect(came || !home.IsStillAt(head), 0)) batch->undecided |= 1u << i;
    if (MacBucket::IsMarked(head, position)) {
      batch->away |= 1u << i;
      batch->secondaries[i] = view.buckets + view.map.Index(view.hash->Detour(position));
      __builtin_prefetch(batch->secondaries[i]);
    } else {
      batch->missed |= 1u << i;
    }
  }
}

template <typename Kind>
void LookBatch(MacBatch* batch, MacBatch* next) {
  LookSums sums;
  if (batch->count == kSearchChunk && next != nullptr && next->count == kSearchChunk) {
    sums = LookAtHomes<Kind>(batch, next, kSearchChunk);
  } else {
    if (next != nullptr) PlaceBatch<Kind>(next);
    sums = LookAtHomes<Kind>(batch, nullptr, RoundUp(batch->count));
  }
  const uint32_t all = SetOf(batch->count);
  const bool same = sums.changed == 0 && (sums.stable & MacBucket::kStable) != 0;
  // A bucket that is being changed is rare, and which one it was is not worth remembering.
  batch->undecided = __builtin_expect(same, 1) ? 0 : all;
  batch->missed = batch->away = 0;
  FollowMarks<Kind>(batch, sums.missing & all);
}

// No vPort for what aged out or was not found. The loops are of a fixed length and without branches, for the compiler to make
// vectors of.
inline void Settle(MacBatch* batch) {
  const AgeLimit limit = batch->limit;
  const uint16_t shift = AgeLimit::kNever - limit.now, range = AgeLimit::kNever - limit.most;
  uint16_t over[kSearchChunk];
  for (size_t i = 0; i < kSearchChunk; ++i) over[i] = AgeLimit::IsOver(batch->seen[i], shift, range) ? 0xffff : 0;
  for (size_t i = 0; i < kSearchChunk; ++i) batch->vports[i] |= static_cast<uint32_t>(static_cast<int16_t>(over[i]));
  const uint32_t missed = batch->missed;
  if (missed == 0) return;
  for (uint32_t i = 0; i < kSearchChunk; ++i) batch->vports[i] |= 0 - (missed >> i & 1);
}
static_assert(CohortVPorts::kNone == ~uint32_t{0}, "or with it gives it");

template <typename Kind>
void LookAway(MacBatch* batch) {
  for (uint32_t away = batch->away; away != 0; away &= away - 1) {
    const int i = __builtin_ctz(away);
    const MacBucket& bucket = *batch->secondaries[i];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    const uint32_t match = Kind::Match(bucket, batch->keys[i]);
    const int slot = __builtin_ctz(match | 1u << (MacBucket::kSlots - 1));
    batch->vports[i] = batch->view.cohorts.VPortOf(bucket.values[slot].load(std::memory_order_relaxed));
    batch->seen[i] = bucket.seen[slot].load(std::memory_order_relaxed);
    bool decided = bucket.IsStillAt(head);
    if (__builtin_expect(match == 0, 0)) {
      // It may have come home, or gone to the stash, while we looked for it.
      decided = decided && batch->buckets[i]->IsStillAt(batch->heads[i]) &&
                batch->view.shape->stashed.load(std::memory_order_relaxed) == 0;
      batch->missed |= 1u << i;
    } else {
      batch->buckets[i] = &bucket;
    }
    if (__builtin_expect(!decided, 0)) batch->undecided |= 1u << i;
  }
  Settle(batch);
}

template <typename Kind>
constexpr MacSearch SearchOf(const char* name) {
  return {name, PlaceBatch<Kind>, LookBatch<Kind>, LookAway<Kind>};
}

}  // namespace
}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_LOOP_H_
