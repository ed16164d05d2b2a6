// The loop of a search, compiled once for each kind with that kind's instructions; to be included by mac_search_*.cc only, and
// their test. All of it has internal linkage, so that the linker never takes one kind's code for another's.
//
// A kind has:
//   Way: of a view what Place needs, in registers;
//   Place(way, batch, from): positions and primary buckets of the group of keys from `from` on;
//   Match(bucket, key): the set of slots that have `key`, a bit each.
//
// While one batch is looked at, the next one's lines are asked for, in turn, and the last of them while the other stages have
// theirs. A request whose address is not in the TLB stays among the processor's 256 (Zen 3) instructions under way until the
// page walk has ended, so a stream of lookups is as fast as there are requests among these: evenly spread, and with few
// instructions between them. That is why they are counted here. Eight requests in a row, and then eight looks, took a tenth
// longer at ten million entries; all of them during the looks, and none during the rest, a twentieth (AMD EPYC, Zen 3,
// 2026-11-22).
//
// Vector loads race with the writer's stores, which C++ does not define. What is relied on is x86's: loads are not reordered
// with loads, so what a vector load returns lies between the two loads of the head around it, or of the table's count of
// changes; the compiler keeps that order because of the acquire load before and the fence after; and a word that changed in
// between, torn or not, goes with a head and a count that changed too. With ThreadSanitizer only the plain kind is built, which
// reads each word as the atomic that it is.
#ifndef EOIB_FDB_MAC_SEARCH_LOOP_H_
#define EOIB_FDB_MAC_SEARCH_LOOP_H_

#include "fdb/mac_search.h"

// The compiler makes an instruction of its own of each atomic load, and takes small indices for large ones. Each instruction
// counts here, so with BMI's these few are written down.
#if defined(__x86_64__) && defined(__BMI__) && !defined(EOIB_SANITIZE_THREAD)
#define EOIB_SEARCH_ASSEMBLY
#endif

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

// The lowest slot of a set, any of none. Shifts *none and adds whether it is none.
inline size_t AnySlotOf(uint32_t match, uint32_t* none) {
#if defined(EOIB_SEARCH_ASSEMBLY)
  size_t slot;
  asm("tzcntl %2, %k0\n\tadcl %1, %1\n\tandl $3, %k0" : "=&r"(slot), "+r"(*none) : "r"(match) : "cc");  // of 0: 32, and carry
  static_assert(MacBucket::kSlots == 4);
  return slot;
#else
  *none += *none + static_cast<uint32_t>(match == 0);
  return static_cast<size_t>(__builtin_ctz(match | 1u << (MacBucket::kSlots - 1)));
#endif
}

inline size_t ValueAt(const MacBucket& bucket, size_t slot) {
#if defined(EOIB_SEARCH_ASSEMBLY)
  size_t value;
  asm("movl %c3(%1,%2,4), %k0" : "=r"(value) : "r"(&bucket), "r"(slot), "i"(offsetof(MacBucket, values)), "m"(bucket.values));
  return value;
#else
  return bucket.values[slot].load(std::memory_order_relaxed);
#endif
}

inline uint16_t SeenAt(const MacBucket& bucket, size_t slot) {
#if defined(EOIB_SEARCH_ASSEMBLY)
  uint32_t seen;
  asm("movzwl %c3(%1,%2,2), %0" : "=r"(seen) : "r"(&bucket), "r"(slot), "i"(offsetof(MacBucket, seen)), "m"(bucket.seen));
  return static_cast<uint16_t>(seen);
#else
  return bucket.seen[slot].load(std::memory_order_relaxed);
#endif
}

// The bits in which the bucket's head is not `head`.
inline uint64_t HeadChange(const MacBucket& bucket, uint64_t head) {
#if defined(EOIB_SEARCH_ASSEMBLY)
  asm("xorq %1, %0" : "+r"(head) : "m"(bucket.head) : "cc");
  return head;
#else
  return head ^ bucket.head.load(std::memory_order_relaxed);
#endif
}

// Of a whole batch, three quarters of the lines are asked for while the one before is looked at, at three looks of four; the
// others afterwards, half of them before detours are followed and half after. The looks are as large a part of the work.
constexpr size_t kAskedAtGroup = kSearchGroup - kSearchGroup / 4;
constexpr size_t kAskedAtLooks = kSearchChunk / kSearchGroup * kAskedAtGroup;
constexpr size_t kAskedBetween = kAskedAtLooks + (kSearchChunk - kAskedAtLooks) / 2;

// Of `next`, which is null or a whole batch, the lines of the keys from `from` on, below `to`. Inlined always: GCC 12
// takes a function that does nothing but this for one that does nothing.
__attribute__((always_inline)) inline void AskFor(const MacBatch* next, size_t from, size_t to) {
  if (next == nullptr) return;
#pragma GCC unroll 8
  for (size_t i = from; i < to; ++i) __builtin_prefetch(next->buckets[i]);
}

// No branch depends on what is found: a few in a hundred keys are not at home, which ones cannot be predicted, and after a
// wrong guess the processor would have to begin anew to look ahead. From the group's last key to its first, because each shifts
// those before it to their bits. In a quiet table, heads need not be looked at.
template <typename Kind, bool kQuiet>
__attribute__((always_inline)) inline void LookAtGroup(MacBatch* batch, const MacBatch* next, const uint64_t* keys,
                                                       CohortVPorts::Reader cohorts, size_t from, LookSums* sums) {
  uint32_t* const vports = batch->vports;
  const size_t ask = from / kSearchGroup * kAskedAtGroup;
  uint32_t missing = 0;
#pragma GCC unroll 8
  for (size_t j = 0; j < kSearchGroup; ++j) {
    const size_t i = from + kSearchGroup - 1 - j;
    if (j % 4 != 3) AskFor(next, ask + j - j / 4, ask + j - j / 4 + 1);
    const MacBucket& bucket = *batch->buckets[i];
    const uint64_t head = kQuiet ? 0 : bucket.head.load(std::memory_order_acquire);
    const size_t slot = AnySlotOf(Kind::Match(bucket, keys[i]), &missing);
    vports[i] = cohorts.VPortOf(ValueAt(bucket, slot));
    batch->seen[i] = SeenAt(bucket, slot);
    if (!kQuiet) {
      sums->stable &= head;
      std::atomic_thread_fence(std::memory_order_acquire);
      sums->changed |= HeadChange(bucket, head);
      asm("" : "+r"(sums->changed), "+r"(sums->stable));  // now: kept for later, they would be spilled
    }
    asm("" : "+r"(missing));
  }
  sums->missing |= missing << from;
}

// Groups in the order of memory, which the processor foresees.
template <typename Kind, bool kQuiet>
__attribute__((always_inline)) inline LookSums LookAtHomes(MacBatch* batch, MacBatch* next, size_t count) {
  const uint64_t* const keys = batch->keys;
  const CohortVPorts::Reader cohorts = batch->view.cohorts;
  const typename Kind::Way way(next != nullptr ? next->view : batch->view);
  LookSums sums;
  for (size_t at = 0; at < count; at += kSearchGroup) {
    if (next != nullptr) Kind::Place(way, next, at);
    LookAtGroup<Kind, kQuiet>(batch, next, keys, cohorts, at, &sums);
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
  batch->away = missing;
  uint32_t missed = 0;
  for (; missing != 0; missing &= missing - 1) {
    const int i = __builtin_ctz(missing);
    const uint32_t position = static_cast<uint32_t>(batch->positions[i]);
    const MacBucket& home = *batch->buckets[i];
    const uint64_t head = home.head.load(std::memory_order_acquire);
    if (MacBucket::IsMarked(head, position)) {
      batch->heads[i] = head;
      batch->secondaries[i] = view.buckets + view.map.Index(view.hash->Detour(position));
      __builtin_prefetch(batch->secondaries[i]);
      continue;
    }
    missed |= 1u << i;
    const bool came = Kind::Match(home, batch->keys[i]) != 0;  // meanwhile
    if (__builtin_expect(came || !home.IsStillAt(head), 0)) batch->undecided |= 1u << i;
  }
  batch->missed = missed;
  batch->away &= ~missed;
}

// If `next` is not null, both are whole.
template <typename Kind, bool kQuiet>
__attribute__((always_inline)) inline LookSums LookAtHomes(MacBatch* batch, MacBatch* next) {
  return next != nullptr ? LookAtHomes<Kind, kQuiet>(batch, next, kSearchChunk)
                         : LookAtHomes<Kind, kQuiet>(batch, nullptr, RoundUp(batch->count));
}

template <typename Kind>
__attribute__((always_inline)) inline void LookHome(MacBatch* batch, MacBatch* next) {
  LookSums sums;
  if (batch->IsTableQuiet()) {
    sums = LookAtHomes<Kind, true>(batch, next);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (__builtin_expect(!batch->IsTableQuiet(), 0)) sums = LookAtHomes<Kind, false>(batch, nullptr);
  } else {
    sums = LookAtHomes<Kind, false>(batch, next);
  }
  const uint32_t all = SetOf(batch->count);
  const bool same = sums.changed == 0 && (sums.stable & MacBucket::kStable) != 0;
  // A bucket that is being changed is rare, and which one it was is not worth remembering.
  batch->undecided = __builtin_expect(same, 1) ? 0 : all;
  FollowMarks<Kind>(batch, sums.missing & all);
}

// No vPort for what aged out or was not found. The loops are of a fixed length and without branches, for the compiler to make
// vectors of.
inline void Settle(const MacBatch& batch) {
  const uint16_t shift = AgeLimit::kNever - batch.limit.now, range = AgeLimit::kNever - batch.limit.most;
  uint16_t over[kSearchChunk], any = 0;
  for (size_t i = 0; i < kSearchChunk; ++i) any |= over[i] = AgeLimit::IsOver(batch.seen[i], shift, range) ? 0xffff : 0;
  uint32_t* const vports = batch.vports;
  if (any != 0) {
    for (size_t i = 0; i < kSearchChunk; ++i) vports[i] |= static_cast<uint32_t>(static_cast<int16_t>(over[i]));
  }
  const uint32_t missed = batch.missed;
  if (missed == 0) return;
  for (uint32_t i = 0; i < kSearchChunk; ++i) vports[i] |= 0 - (missed >> i & 1);
}
static_assert(CohortVPorts::kNone == ~uint32_t{0}, "or with it gives it");

template <typename Kind>
__attribute__((always_inline)) inline void LookAway(MacBatch* batch) {
  for (uint32_t away = batch->away; away != 0; away &= away - 1) {
    const int i = __builtin_ctz(away);
    const MacBucket& bucket = *batch->secondaries[i];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    const uint32_t match = Kind::Match(bucket, batch->keys[i]);
    bool decided = true;
    if (__builtin_expect(match != 0, 1)) {
      const size_t slot = static_cast<size_t>(__builtin_ctz(match));
      batch->vports[i] = batch->view.cohorts.VPortOf(ValueAt(bucket, slot));
      batch->seen[i] = SeenAt(bucket, slot);
      batch->buckets[i] = &bucket;
    } else {
      // It may have gone to the stash, or come home (also from there), while we looked for it: in this order.
      const MacBucket& home = *batch->buckets[i];
      decided = batch->view.shape->stashed.load(std::memory_order_acquire) == 0 && Kind::Match(home, batch->keys[i]) == 0 &&
                home.IsStillAt(batch->heads[i]);
      batch->missed |= 1u << i;
    }
    if (__builtin_expect(!decided || !bucket.IsStillAt(head), 0)) batch->undecided |= 1u << i;
  }
}

template <typename Kind>
void TakeTurn(MacBatch* next, MacBatch* placed, MacBatch* looked) {
  const bool are_whole = placed != nullptr && next != nullptr && (placed->count & next->count) == kSearchChunk;
  if (!are_whole) {
    if (next != nullptr) PlaceBatch<Kind>(next);
    next = nullptr;
  }
  if (placed != nullptr) LookHome<Kind>(placed, next);
  AskFor(next, kAskedAtLooks, kAskedBetween);
  if (looked != nullptr) LookAway<Kind>(looked);
  AskFor(next, kAskedBetween, kSearchChunk);
  if (looked != nullptr) Settle(*looked);
}

template <typename Kind>
constexpr MacSearch SearchOf(const char* name) {
  return {name, PlaceBatch<Kind>, TakeTurn<Kind>};
}

}  // namespace
}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_LOOP_H_
