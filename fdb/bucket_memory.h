// BucketMemory: an array of buckets that grows and shrinks in place.
#ifndef EOIB_FDB_BUCKET_MEMORY_H_
#define EOIB_FDB_BUCKET_MEMORY_H_

#include <cstddef>

#include "fdb/mac_bucket.h"

namespace eoib {

// Address space for the largest table is reserved at once, and nothing else; memory follows the number of buckets. Addresses
// are never taken back before the destructor: a reader that comes late, holding a number of buckets that was true a moment ago,
// reads zeros where memory was given back, which is a bucket that is not stable. So readers need no epochs and no grace
// periods.
//
// Large tables use huge pages where they are full: a lookup is a random cache line, and would else be a TLB miss too.
class BucketMemory {
 public:
  // Room for `most` buckets. Terminates the program if there is no address space.
  explicit BucketMemory(size_t most);
  ~BucketMemory();
  BucketMemory(const BucketMemory&) = delete;
  BucketMemory& operator=(const BucketMemory&) = delete;

  // Makes the first `count` buckets readable and writable; new ones are zero. False if the kernel refuses. Requires count <=
  // most().
  bool Grow(size_t count);
  // Gives back what lies above `count` buckets; it stays readable, as zeros.
  void Shrink(size_t count);

  MacBucket* buckets() const { return buckets_; }
  size_t most() const { return most_; }

 private:
  const size_t most_;
  size_t writable_ = 0;  // bytes
  size_t huge_ = 0;      // bytes for which huge pages were asked
  MacBucket* buckets_;
};

}  // namespace eoib

#endif  // EOIB_FDB_BUCKET_MEMORY_H_
