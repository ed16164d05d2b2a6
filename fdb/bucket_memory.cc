#include "fdb/bucket_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "vswitch/base/check.h"

namespace eoib {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE; Debian 12's C library does not define it

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
size_t ReservedBytes(size_t most) {
  return RoundUp(most * sizeof(MacBucket), kHugePage) + kHugePage;
}

}  // namespace

BucketMemory::BucketMemory(size_t most) : most_(most) {
  void* const reserved = mmap(nullptr, ReservedBytes(most), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EOIB_CHECK(reserved != MAP_FAILED);
  // The slack at both ends costs only address space.
  const uintptr_t aligned = RoundUp(reinterpret_cast<uintptr_t>(reserved), kHugePage);
  const size_t before = aligned - reinterpret_cast<uintptr_t>(reserved);
  if (before != 0) munmap(reserved, before);
  munmap(reinterpret_cast<void*>(aligned + ReservedBytes(most) - kHugePage), kHugePage - before);
  buckets_ = reinterpret_cast<MacBucket*>(aligned);
}

BucketMemory::~BucketMemory() {
  munmap(static_cast<void*>(buckets_), ReservedBytes(most_) - kHugePage);
}

bool BucketMemory::Grow(size_t count) {
  EOIB_CHECK(count <= most_);
  char* const start = reinterpret_cast<char*>(buckets_);
  const size_t bytes = RoundUp(count * sizeof(MacBucket), kPage);
  if (bytes > writable_) {
    // The kernel charges memory only when it is written to, so a large table may ask for 2 MiB at a
    // time.
    const size_t ask = bytes < kHugePage
                           ? bytes
                           : std::min(RoundUp(bytes, kHugePage), ReservedBytes(most_) - kHugePage);
    if (mprotect(start + writable_, ask - writable_, PROT_READ | PROT_WRITE) != 0) return false;
    writable_ = ask;
  }
  // Only advice: the table works without huge pages, but slower.
  const size_t huge = bytes / kHugePage * kHugePage;
  if (huge > huge_) {
    madvise(start + huge_, huge - huge_, MADV_HUGEPAGE);
    // The first huge page was partly in use, as small pages. Linux 6.1 joins them at once, earlier
    // kernels at some later time. A reader that touches it meanwhile waits for a copy of 2 MiB.
    madvise(start + huge_, kHugePage, kCollapse);
    huge_ = huge;
  }
  return true;
}

void BucketMemory::Shrink(size_t count) {
  const size_t bytes = RoundUp(count * sizeof(MacBucket), kPage);
  // Stays mapped, so that a late reader reads zeros instead of crashing.
  if (bytes < writable_)
    madvise(reinterpret_cast<char*>(buckets_) + bytes, writable_ - bytes, MADV_DONTNEED);
  // Otherwise the first write above the end would bring back a whole huge page.
  const size_t huge = bytes / kHugePage * kHugePage;
  if (huge < huge_) {
    madvise(reinterpret_cast<char*>(buckets_) + huge, huge_ - huge, MADV_NOHUGEPAGE);
    huge_ = huge;
  }
}

}  // namespace eoib
