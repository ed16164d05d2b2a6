// The kinds of search: how a batch of keys is looked up in the buckets, with AVX-512, AVX2, or plain instructions.
//
// A search looks into the primary buckets of its keys, and later into the secondary ones of those few that took a detour. It
// decides what it can from buckets that were stable, and leaves to the table (MacTable::Lookup) what it met in the middle of a
// change.
#ifndef EOIB_FDB_MAC_SEARCH_H_
#define EOIB_FDB_MAC_SEARCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "fdb/bucket_map.h"
#include "fdb/cohort_vports.h"
#include "fdb/key_hash.h"
#include "fdb/mac_bucket.h"

namespace eoib {

constexpr size_t kSearchChunk = 32;  // keys a search takes at most
constexpr size_t kSearchGroup = 8;   // at a time

// What the writer publishes of the table's shape, in a cache line of its own, and of its changes, in another.
struct alignas(64) MacShape {
  // In the low half of the version: the fields are being changed for a resizing to begin or end.
  static constexpr uint64_t kReshaping = 0xffff'ffff;

  std::atomic<uint64_t> version{0};  // number of the resizing 32 bits, of its step 31, step under way 1
  std::atomic<uint32_t> low{1}, high{1};
  std::atomic<uint64_t> cutoff{BucketMap::kEnd};
  std::atomic<uint64_t> step_from{BucketMap::kEnd}, step_to{BucketMap::kEnd};  // of the last step: from which cutoff to which
  std::atomic<uint32_t> stashed{0};                                            // entries in the stash
  // Twice the number of changes of the table so far, and one more while one is made. Readers can do without it, so that a line
  // which changes all the time does not go to and fro.
  alignas(64) std::atomic<uint64_t> changes{0};

  // True if no step was under way at `before`, and none began since. For readers, after they read.
  bool IsStillAt(uint64_t before) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return version.load(std::memory_order_relaxed) == before && before % 2 == 0;
  }
  static bool IsSameResizing(uint64_t before, uint64_t after) {
    return before >> 32 == after >> 32 && (before & kReshaping) != kReshaping;
  }
  BucketMap Map() const {
    return {low.load(std::memory_order_relaxed), high.load(std::memory_order_relaxed), cutoff.load(std::memory_order_relaxed)};
  }
};

// The table as a reader took it before it looked into buckets. Where fields are of different moments, buckets are looked for in
// the wrong place; keys found there are right all the same, and misses are checked (MacTable::IsMissFinal).
struct MacView {
  const MacBucket* buckets;
  CohortVPorts::Reader cohorts;
  const KeyHash* hash;
  const MacShape* shape;
  BucketMap map;
  uint64_t version, step_from;

  static MacView Of(const MacBucket* buckets, CohortVPorts::Reader cohorts, const KeyHash* hash, const MacShape* shape) {
    MacView view{buckets, cohorts, hash, shape, {}, shape->version.load(std::memory_order_acquire), 0};
    view.map = shape->Map();
    std::atomic_thread_fence(std::memory_order_acquire);
    view.step_from = shape->step_from.load(std::memory_order_acquire);
    return view;
  }
  // True if it is as good as one that is taken now: no step of resizing has begun or ended.
  bool IsCurrent() const { return shape->version.load(std::memory_order_acquire) == version; }
};

// Older than `most` ticks at `now`: aged out. Ticks count modulo 2^16; an entry seen a moment after `now` was read is young.
struct AgeLimit {
  static constexpr uint16_t kNever = 0x7fff;
  uint16_t now = 0;
  uint16_t most = kNever;

  // Ages that are over are those above `most` up to kNever, ages beyond are of the future: one comparison, with kNever - now
  // and kNever - most.
  static bool IsOver(uint16_t seen, uint16_t shift, uint16_t range) {
    return (static_cast<uint16_t>(seen + shift) < range) & (seen != 0);
  }
  // Of an entry that was last seen at `seen`; 0 is one that does not age.
  bool IsOver(uint16_t seen) const {
    return IsOver(seen, static_cast<uint16_t>(kNever - now), static_cast<uint16_t>(kNever - most));
  }
};

// A batch of keys on its way through a search.
struct MacBatch {
  // Of `count` keys; those behind them, up to a multiple of kSearchGroup, are looked up as well and mean nothing.
  const uint64_t* keys;
  size_t count;
  MacView view;
  uint64_t changes;  // the table's before the view was last found current; kUnknown: nobody looked

  static constexpr uint64_t kUnknown = 1;
  // True if nothing has changed since then, so that all buckets looked at meanwhile are of one moment.
  bool IsTableQuiet() const { return changes % 2 == 0 && view.shape->changes.load(std::memory_order_acquire) == changes; }

  // Where they belong.
  alignas(64) uint64_t positions[kSearchChunk];
  alignas(64) const MacBucket* buckets[kSearchChunk];  // primary; secondary of those found there
  alignas(64) uint64_t heads[kSearchChunk];            // of primary buckets that are marked for their key

  // What was found: meaningless for keys that are undecided.
  uint32_t* vports;
  alignas(64) uint16_t seen[kSearchChunk];
  // A bit each.
  uint32_t missed;     // not found. Final if the shape did not change since the view was taken
  uint32_t undecided;  // met in the middle of a change

  uint32_t away;  // keys that took a detour
  const MacBucket* secondaries[kSearchChunk];

  // The asker's.
  AgeLimit limit;  // set before the last stage
  uint32_t* out;

  // What `keys` and `vports` lead to if the asker's room is not for a whole chunk.
  uint64_t own_keys[kSearchChunk];
  uint32_t own_vports[kSearchChunk];
};

// The stages of a search. Between two of them the memory needs time, in which others batches have theirs.
struct MacSearch {
  const char* name;
  // Where the keys belong; asks for the cache lines of their primary buckets.
  void (*place)(MacBatch* batch);
  // Each of three batches, any of which may be null, goes through a stage: `next` is placed; meanwhile the primary buckets of
  // `placed` are looked at, and the lines asked for of those that a detour leads to; where detours lead is looked at of
  // `looked`, and the vPorts are taken away of what aged out by its limit, or was not found.
  void (*take_turn)(MacBatch* next, MacBatch* placed, MacBatch* looked);
};

// Those that this build and this processor have, the fastest first; the last one is plain.
absl::Span<const MacSearch* const> MacSearches();

}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_H_
