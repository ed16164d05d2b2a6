// MacView: the shape of a MAC table as a reader saw it, and what a reader needs to look into the
// buckets.
#ifndef EOIB_FDB_MAC_VIEW_H_
#define EOIB_FDB_MAC_VIEW_H_

#include <atomic>
#include <cstdint>

#include "fdb/bucket_map.h"
#include "fdb/flush_group_vports.h"
#include "fdb/key_hash.h"
#include "fdb/mac_bucket.h"

namespace eoib {

// The shape of a table, which the writer publishes in a cache line of its own.
struct alignas(64) MacShape {
  // In the low half of the version: the fields are being changed for a resizing to begin or end.
  static constexpr uint64_t kReshaping = 0xffff'ffff;

  // Number of the resizing 32 bits, of its step 31, step under way 1.
  std::atomic<uint64_t> version{0};
  std::atomic<uint32_t> low{1}, high{1};
  std::atomic<uint64_t> cutoff{BucketMap::kEnd};
  // Of the last step: from which cutoff to which.
  std::atomic<uint64_t> step_from{BucketMap::kEnd}, step_to{BucketMap::kEnd};
  // Entries in the stash.
  std::atomic<uint32_t> stashed{0};

  // True if no step was under way at `before`, and none began since. For readers, after they read.
  bool IsStillAt(uint64_t before) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return version.load(std::memory_order_relaxed) == before && before % 2 == 0;
  }
  static bool IsSameResizing(uint64_t before, uint64_t after) {
    return before >> 32 == after >> 32 && (before & kReshaping) != kReshaping;
  }
  BucketMap Map() const {
    return {low.load(std::memory_order_relaxed), high.load(std::memory_order_relaxed),
            cutoff.load(std::memory_order_relaxed)};
  }
};

// A reader's copy of the shape, taken before it looks into buckets. If its fields are of different
// moments, the reader looks into wrong buckets; keys that it finds there are right all the same,
// and it checks misses (MacReader::IsMissFinal).
struct MacView {
  const MacBucket* buckets;
  FlushGroupVPorts::Reader groups;
  const KeyHash* hash;
  const MacShape* shape;
  BucketMap map;
  uint64_t version, step_from;

  static MacView Of(const MacBucket* buckets, FlushGroupVPorts::Reader groups, const KeyHash* hash,
                    const MacShape* shape) {
    MacView view{buckets, groups, hash, shape, {}, shape->version.load(std::memory_order_acquire),
                 0};
    view.map = shape->Map();
    std::atomic_thread_fence(std::memory_order_acquire);
    view.step_from = shape->step_from.load(std::memory_order_acquire);
    return view;
  }
  // True if no step of resizing has begun or ended since the view was taken.
  bool IsCurrent() const { return shape->version.load(std::memory_order_acquire) == version; }
};

// An entry older than `most` ticks at `now` has aged out. Ticks count modulo 2^16; an entry seen
// just after `now` was read is young.
struct AgeLimit {
  static constexpr uint16_t kNever = 0x7fff;
  uint16_t now = 0;
  uint16_t most = kNever;

  // Ages above `most` up to kNever are over; larger ones lie in the future. One comparison does it,
  // if shift is kNever - now and range is kNever - most.
  static bool IsOver(uint16_t seen, uint16_t shift, uint16_t range) {
    return (static_cast<uint16_t>(seen + shift) < range) & (seen != 0);
  }
  // Whether an entry last seen at `seen` has aged out; one with 0 does not age.
  bool IsOver(uint16_t seen) const {
    return IsOver(seen, static_cast<uint16_t>(kNever - now), static_cast<uint16_t>(kNever - most));
  }
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_VIEW_H_
