// The loop of a search, compiled once for each kind with that kind's instructions; to be included by mac_search_*.cc only. All
// of it has internal linkage, so that the linker never takes one kind's code for another's.
//
// A kind has two functions:
//   Place(view, keys, count, places): position and primary bucket of `count` keys, perhaps of a few more behind them, asking
//   for the
//       cache line of each;
//   Match(bucket, key): the set of slots that have `key`, a bit each.
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

// Of a chunk's keys.
struct Places {
  alignas(64) uint64_t positions[kSearchChunk];
  alignas(64) const MacBucket* homes[kSearchChunk];
};

// Adds key i to a set, behind a branch: without one, each key would wait for the loads of those before it.
inline void AddRarely(size_t i, uint32_t* set) {
  asm volatile("");
  *set |= 1u << i;
}

// Calls on_hit(i, bucket, slot, head) for what is found, which returns false if the bucket has left `head` since; on_miss(i)
// for what is not.
template <typename Kind, typename OnHit, typename OnMiss>
__attribute__((always_inline)) inline SearchOutcome SearchChunk(const MacView& view, const uint64_t* keys, size_t count,
                                                                OnHit on_hit, OnMiss on_miss) {
  Places places;
  Kind::Place(view, keys, count, &places);
  SearchOutcome outcome;
  uint32_t detours = 0;
  uint32_t away[kSearchChunk];                 // keys that took a detour
  uint64_t home_heads[kSearchChunk];           // of their primary buckets
  const MacBucket* secondaries[kSearchChunk];  // and where it leads
  for (size_t i = 0; i < count; ++i) {
    const MacBucket& bucket = *places.homes[i];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    const uint32_t match = Kind::Match(bucket, keys[i]);
    if (__builtin_expect(match != 0, 1)) {
      if (__builtin_expect(!on_hit(i, bucket, __builtin_ctz(match), head), 0)) AddRarely(i, &outcome.undecided);
      continue;
    }
    const uint32_t position = static_cast<uint32_t>(places.positions[i]);
    if (__builtin_expect(!bucket.IsStillAt(head), 0)) {
      AddRarely(i, &outcome.undecided);
    } else if (MacBucket::IsMarked(head, position)) {
      const MacBucket* const secondary = view.buckets + view.map.Index(view.hash->Detour(position));
      __builtin_prefetch(secondary);
      away[detours] = static_cast<uint32_t>(i);
      home_heads[detours] = head;
      secondaries[detours] = secondary;
      ++detours;
    } else {
      outcome.missed |= 1u << i;
      on_miss(i);
    }
  }
  for (uint32_t j = 0; j < detours; ++j) {
    const uint32_t i = away[j];
    const MacBucket& bucket = *secondaries[j];
    const uint64_t head = bucket.head.load(std::memory_order_acquire);
    const uint32_t match = Kind::Match(bucket, keys[i]);
    if (__builtin_expect(match != 0, 1)) {
      if (__builtin_expect(!on_hit(i, bucket, __builtin_ctz(match), head), 0)) AddRarely(i, &outcome.undecided);
      continue;
    }
    // It may have come home, or gone to the stash, while we looked for it.
    const bool stable = bucket.IsStillAt(head) && places.homes[i]->IsStillAt(home_heads[j]);
    if (stable && view.shape->stashed.load(std::memory_order_relaxed) == 0) {
      outcome.missed |= 1u << i;
      on_miss(i);
    } else {
      outcome.undecided |= 1u << i;
    }
  }
  return outcome;
}

template <typename Kind>
__attribute__((always_inline)) inline SearchOutcome FindSome(const MacView& view, const uint64_t* keys, size_t count,
                                                             AgeLimit limit, uint32_t* out) {
  return SearchChunk<Kind>(
      view, keys, count,
      [ limit, out ](size_t i, const MacBucket& bucket, int slot, uint64_t head) __attribute__((always_inline)) {
        uint32_t value = bucket.values[slot].load(std::memory_order_relaxed);
        if (__builtin_expect(limit.IsOver(bucket.seen[slot].load(std::memory_order_relaxed)), 0)) value = MacBucket::kNoValue;
        out[i] = value;
        return bucket.IsStillAt(head);
      },
      [out](size_t i) __attribute__((always_inline)) { out[i] = MacBucket::kNoValue; });
}

template <typename Kind>
SearchOutcome FindChunk(const MacView& view, const uint64_t* keys, size_t count, AgeLimit limit, uint32_t* out) {
  // A whole chunk is the rule, and a loop whose end the compiler knows is faster.
  if (count == kSearchChunk) return FindSome<Kind>(view, keys, kSearchChunk, limit, out);
  return FindSome<Kind>(view, keys, count, limit, out);
}

template <typename Kind>
void PrefetchChunk(const MacView& view, const uint64_t* keys, size_t count) {
  Places places;
  Kind::Place(view, keys, count, &places);
}

template <typename Kind>
SearchOutcome TouchChunk(const MacView& view, const uint64_t* keys, const uint32_t* values, size_t count, uint16_t now,
                         uint8_t* wrong) {
  return SearchChunk<Kind>(
      view, keys, count,
      [ values, now, wrong ](size_t i, const MacBucket& bucket, int slot, uint64_t head) __attribute__((always_inline)) {
        const uint32_t value = bucket.values[slot].load(std::memory_order_relaxed);
        const uint16_t seen = bucket.seen[slot].load(std::memory_order_relaxed);
        wrong[i] = value != values[i];
        if (!bucket.IsStillAt(head)) return false;
        if (__builtin_expect(seen != now && seen != 0 && value == values[i], 0)) bucket.MarkSeen(slot, seen, now);
        return true;
      },
      [wrong](size_t i) __attribute__((always_inline)) { wrong[i] = 1; });
}

}  // namespace
}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_LOOP_H_
