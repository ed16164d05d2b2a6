#include "vswitch/fabric/softhca/memory_regions.h"

namespace eoib::softhca {

void MemoryRegions::Add(SoftMr* region) {
  uint32_t index = static_cast<uint32_t>(regions_.size());
  if (free_.empty()) {
    regions_.push_back(region);
  } else {
    index = free_.back();
    free_.pop_back();
    regions_[index] = region;
  }
  region->lkey = region->rkey = (index + 1) << 8 | next_tag_++;
  region->handle = index;
}

void MemoryRegions::Remove(SoftMr* region) {
  regions_[region->handle] = nullptr;
  free_.push_back(region->handle);
}

}  // namespace eoib::softhca
