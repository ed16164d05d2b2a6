// The kinds of search: how a chunk of keys is looked up in the buckets, with AVX-512, AVX2, or plain instructions.
//
// A search makes one pass over the primary buckets of its keys and one over the secondary ones of those few that took a detour.
// It decides what it can from buckets that were stable, and leaves to the table (MacTable::Lookup) what it met in the middle of
// a change.
#ifndef EOIB_FDB_MAC_SEARCH_H_
#define EOIB_FDB_MAC_SEARCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "fdb/bucket_map.h"
#include "fdb/key_hash.h"
#include "fdb/mac_bucket.h"

namespace eoib {

constexpr size_t kSearchChunk = 32;  // keys a search takes at most

// What the writer publishes of the table's shape, in a cache line of its own.
struct alignas(64) MacShape {
  // In the low half of the version: the fields are being changed for a resizing to begin or end.
  static constexpr uint64_t kReshaping = 0xffff'ffff;

  std::atomic<uint64_t> version{0};  // number of the resizing 32 bits, of its step 31, step under way 1
  std::atomic<uint32_t> low{1}, high{1};
  std::atomic<uint64_t> cutoff{BucketMap::kEnd};
  std::atomic<uint64_t> step_from{BucketMap::kEnd}, step_to{BucketMap::kEnd};  // of the last step: from which cutoff to which
  std::atomic<uint32_t> stashed{0};                                            // entries in the stash

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
  const KeyHash* hash;
  const MacShape* shape;
  BucketMap map;
  uint64_t version, step_from;

  static MacView Of(const MacBucket* buckets, const KeyHash* hash, const MacShape* shape) {
    MacView view{buckets, hash, shape, {}, shape->version.load(std::memory_order_acquire), 0};
    view.map = shape->Map();
    std::atomic_thread_fence(std::memory_order_acquire);
    view.step_from = shape->step_from.load(std::memory_order_acquire);
    return view;
  }
};

// Older than `most` ticks at `now`: aged out. Ticks count modulo 2^16; an entry seen a moment after `now` was read is young.
struct AgeLimit {
  static constexpr uint16_t kNever = 0x7fff;
  uint16_t now = 0;
  uint16_t most = kNever;

  // Of an entry that was last seen at `seen`; 0 is one that does not age.
  bool IsOver(uint16_t seen) const {
    // Ages that are over are those above `most` up to kNever, ages beyond are of the future: one comparison.
    return static_cast<uint16_t>(seen + kNever - now) < static_cast<uint16_t>(kNever - most) && seen != 0;
  }
};

// Sets of keys of a chunk, a bit each. A key in neither was found.
struct SearchOutcome {
  uint32_t missed = 0;  // not found. Final if the shape did not change meanwhile
  uint32_t undecided = 0;
};

struct MacSearch {
  const char* name;
  // `keys` has room for kSearchChunk, of which `count` are looked for.
  //
  // out[i] is the value of keys[i], or kNoValue if it aged out or was not found.
  SearchOutcome (*find)(const MacView& view, const uint64_t* keys, size_t count, AgeLimit limit, uint32_t* out);
  // Marks what is found with value values[i] as seen at `now`. wrong[i] is then 0, and 1 for what has another value.
  SearchOutcome (*touch)(const MacView& view, const uint64_t* keys, const uint32_t* values, size_t count, uint16_t now,
                         uint8_t* wrong);
  // Asks for the cache lines of the keys' primary buckets.
  void (*prefetch)(const MacView& view, const uint64_t* keys, size_t count);
};

// Those that this build and this processor have, the fastest first; the last one is plain.
absl::Span<const MacSearch* const> MacSearches();

}  // namespace eoib

#endif  // EOIB_FDB_MAC_SEARCH_H_
