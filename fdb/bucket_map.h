// BucketMap: which bucket a position belongs to, also while the number of buckets changes.
//
// With n buckets, position p belongs to bucket floor(p * n / 2^32): the order of positions is the order of buckets. To go from
// n to any larger number in place, buckets are taken from the last to the first: what is in bucket i goes to buckets at or
// above i, all of which are vacant by then. To go to a smaller number, the same backwards. One step takes in or gives out the
// positions of one bucket of the smaller number; `cutoff` is how far that came.
#ifndef EOIB_FDB_BUCKET_MAP_H_
#define EOIB_FDB_BUCKET_MAP_H_

#include <algorithm>
#include <cstdint>

namespace eoib {

struct BucketMap {
  static constexpr uint64_t kEnd = uint64_t{1} << 32;  // one past the last position

  uint32_t low = 1, high = 1;  // positions below cutoff are spread over `low` buckets, others over `high`; low <= high
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

  static uint32_t At(uint64_t position, uint32_t count) { return static_cast<uint32_t>(position * count >> 32); }
  // The first position of bucket `index` among `count`; kEnd for index == count.
  static uint64_t First(uint64_t index, uint32_t count) { return ((index << 32) + count - 1) / count; }
};

}  // namespace eoib

#endif  // EOIB_FDB_BUCKET_MAP_H_
