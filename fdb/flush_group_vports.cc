#include "fdb/flush_group_vports.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "vswitch/base/check.h"

namespace eoib {
namespace {

constexpr size_t kLeastWritable = 4096;

}  // namespace

FlushGroupVPorts::FlushGroupVPorts(size_t most)
    : size_(std::max(std::bit_ceil(most), kLeastWritable / sizeof(uint32_t))) {
  EOIB_CHECK(most <= size_t{1} << 31);
  // Reads as zeros, and takes no memory until it is written to.
  void* const reserved =
      mmap(nullptr, bytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EOIB_CHECK(reserved != MAP_FAILED);
  words_ = static_cast<std::atomic<uint32_t>*>(reserved);
}

FlushGroupVPorts::~FlushGroupVPorts() { munmap(static_cast<void*>(words_), bytes()); }

bool FlushGroupVPorts::Set(FlushGroupId group, VPortId vport) {
  EOIB_CHECK(Has(group));
  const size_t end = (size_t{group.value()} + 1) * sizeof(uint32_t);
  if (end > writable_) {
    const size_t ask = std::min(std::max(std::bit_ceil(end), kLeastWritable), bytes());
    if (mprotect(words_, ask, PROT_READ | PROT_WRITE) != 0) return false;
    writable_ = ask;
  }
  words_[group.value()].store(vport.value(), std::memory_order_release);
  return true;
}

}  // namespace eoib
