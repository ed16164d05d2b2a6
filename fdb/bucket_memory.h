// BucketMemory: an array of buckets that grows and shrinks in place.
#ifndef EOIB_FDB_BUCKET_MEMORY_H_
#define EOIB_FDB_BUCKET_MEMORY_H_

#include <cstddef>

#include "fdb/mac_bucket.h"

namespace eoib {

// The constructor reserves address space for the largest table; memory follows the number of
// buckets. No address is returned before the destructor: a reader that still holds a former number
// of buckets reads zeros where memory was given back, and a zero bucket is not stable. So readers
// need no epochs and no grace periods.
//
// Full 2 MiB pieces use huge pages: a lookup touches a random cache line, which would otherwise
// also be a TLB miss.
class BucketMemory {
 public:
  // Room for `most` buckets. Terminates the program if there is no address space.
  explicit BucketMemory(size_t most);
  ~BucketMemory();
  BucketMemory(const BucketMemory&) = delete;
  BucketMemory& operator=(const BucketMemory&) = delete;

  // Makes the first `count` buckets readable and writable. New buckets are zero. False if the
  // kernel refuses. Requires count
  // <= most().
  bool Grow(size_t count);
  // Returns the memory above `count` buckets to the kernel. It stays readable, as zeros.
  void Shrink(size_t count);

  MacBucket* buckets() const { return buckets_; }
  size_t most() const { return most_; }

 private:
  const size_t most_;
  size_t writable_ = 0;  // bytes
  size_t huge_ = 0;      // bytes for which huge pages were requested
  MacBucket* buckets_;
};

}  // namespace eoib

#endif  // EOIB_FDB_BUCKET_MEMORY_H_
