// MemoryRegions: the registered memory of a port's programs, by key, and the writing of messages
// into it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_MEMORY_REGIONS_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_MEMORY_REGIONS_H_

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {

// No lock of its own: all members are called under the port's mutex.
class MemoryRegions {
 public:
  // Assigns the region's keys.
  void Add(SoftMr* region);
  void Remove(SoftMr* region);
  // Returns the region of `pd` that covers `sge`, or null.
  const SoftMr* Find(const ibv_pd* pd, const ibv_sge& sge) const;

 private:
  std::vector<SoftMr*> regions_;  // by key, without its low byte
  std::vector<uint32_t> free_;
  uint8_t next_tag_ = 1;  // low byte of the next key, so that stale keys are detected
};

inline const SoftMr* MemoryRegions::Find(const ibv_pd* pd, const ibv_sge& sge) const {
  const uint32_t index = (sge.lkey >> 8) - 1;
  if (index >= regions_.size()) return nullptr;
  const SoftMr* region = regions_[index];
  if (region == nullptr || region->lkey != sge.lkey || region->pd != pd) return nullptr;
  const uint64_t offset = sge.addr - reinterpret_cast<uint64_t>(region->addr);
  return offset <= region->length && sge.length <= region->length - offset ? region : nullptr;
}

// Writes into a list of buffers that is long enough.
class Scatter {
 public:
  explicit Scatter(const ibv_sge* sge) : sge_(sge) {}
  void Write(const uint8_t* bytes, size_t length) {
    Walk(length, [&](uint8_t* to, size_t size) {
      if (size > 0) std::memcpy(to, bytes, size);  // `to` may be null if size is 0
      bytes += size;
    });
  }
  void Skip(size_t length) {
    Walk(length, [](uint8_t*, size_t) {});
  }
  // The address of the next `length` bytes; null if they are not in one piece, or none.
  uint8_t* Contiguous(size_t length) const {
    return length != 0 && length <= sge_->length - used_
               ? reinterpret_cast<uint8_t*>(sge_->addr) + used_
               : nullptr;
  }

 private:
  // Calls `function(address, size)` for the pieces of the next `length` bytes.
  template <typename Function>
  void Walk(size_t length, Function function) {
    while (length != 0) {
      const size_t size = std::min<size_t>(length, sge_->length - used_);
      function(reinterpret_cast<uint8_t*>(sge_->addr) + used_, size);
      used_ += size;
      length -= size;
      if (used_ == sge_->length) {
        ++sge_;
        used_ = 0;
      }
    }
  }

  const ibv_sge* sge_;
  size_t used_ = 0;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_MEMORY_REGIONS_H_
