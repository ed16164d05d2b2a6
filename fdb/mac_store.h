// MacStore: the memory of a MAC table, which its readers and its writer share.
#ifndef EOIB_FDB_MAC_STORE_H_
#define EOIB_FDB_MAC_STORE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/bucket_memory.h"
#include "fdb/flush_group_vports.h"
#include "fdb/key_hash.h"
#include "fdb/mac_bucket.h"
#include "fdb/mac_view.h"

namespace eoib {

struct MacStore {
  // The stash holds entries that found no room in either bucket, even by moving others. It is
  // nearly always empty. Half of it is reserved for entries that a step of resizing cannot place
  // elsewhere.
  static constexpr size_t kStashBuckets = 16, kStashSlots = kStashBuckets * MacBucket::kSlots;
  static constexpr size_t kStashSlotsOfPut = kStashSlots / 2;

  MacStore(uint64_t seed, size_t most_buckets, size_t most_groups)
      : hash(seed), memory(most_buckets), groups(most_groups) {}

  // For the writer.
  BucketMap map() const { return shape.Map(); }
  MacBucket* BucketAt(uint32_t position) const { return memory.buckets() + map().Index(position); }
  uint32_t stashed() const { return shape.stashed.load(std::memory_order_relaxed); }

  const KeyHash hash;
  BucketMemory memory;
  FlushGroupVPorts groups;
  MacShape shape;
  std::atomic<size_t> size{0};  // entries
  mutable std::array<MacBucket, kStashBuckets> stash;
};

}  // namespace eoib

#endif  // EOIB_FDB_MAC_STORE_H_
