// BucketMap: maps a position to a bucket, also while the number of buckets changes.
//
// With n buckets, position p belongs to bucket floor(p * n / 2^32), so the order of positions is
// the order of buckets. To grow in place, the writer works from the last bucket to the first: the
// entries of bucket i go to buckets at or above i, which are vacant by then. To shrink, it works
// from the first to the last. One step moves the positions of one bucket of the smaller number;
// `cutoff` says how far the resizing has come.
#ifndef EOIB_FDB_BUCKET_MAP_H_
#define EOIB_FDB_BUCKET_MAP_H_

#include <algorithm>
#include <cstdint>

namespace eoib {

struct BucketMap {
  static constexpr uint64_t kEnd = uint64_t{1} << 32;  // one past the last position

  // Positions below cutoff are spread over `low` buckets, others over `high`; low <= high.
  uint32_t low = 1, high = 1;
  uint64_t cutoff = kEnd;

  uint32_t Index(uint32_t position) const { return At(position, position < cutoff ? low : high); }
  // One past the last position of the bucket that has `position`.
  uint64_t EndOfBucket(uint32_t position) const {
    if (position >= cutoff) return First(At(position, high) + 1, high);
    return std::min(First(At(position, low) + 1, low), cutoff);
  }
  // The first position of the bucket that has `position`.
  uint64_t StartOfBucket(uint32_t position) const {
    if (position < cutoff) return First(At(position, low), low);
    return std::max(First(At(position, high), high), cutoff);
  }

  static uint32_t At(uint64_t position, uint32_t count) {
    return static_cast<uint32_t>(position * count >> 32);
  }
  // The first position of bucket `index` among `count`; kEnd for index == count.
  static uint64_t First(uint64_t index, uint32_t count) {
    return ((index << 32) + count - 1) / count;
  }
};

}  // namespace eoib

#endif  // EOIB_FDB_BUCKET_MAP_H_
