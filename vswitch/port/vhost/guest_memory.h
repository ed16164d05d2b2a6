// GuestMemory: where the memory of a guest is in this process.
#ifndef EOIB_VSWITCH_PORT_VHOST_GUEST_MEMORY_H_
#define EOIB_VSWITCH_PORT_VHOST_GUEST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace eoib {

class GuestMemory {
 public:
  struct Region {
    uint64_t guest = 0;  // guest-physical address
    uint64_t size = 0;
    uint8_t* host = nullptr;
  };

  GuestMemory() = default;
  explicit GuestMemory(std::vector<Region> regions) : regions_(std::move(regions)) {}

  // The `length` bytes at the guest's address; null unless all are in one region.
  uint8_t* Translate(uint64_t address, uint64_t length) const {
    for (const Region& region : regions_) {
      const uint64_t offset = address - region.guest;
      if (address >= region.guest && offset < region.size && length <= region.size - offset)
        return region.host + offset;
    }
    return nullptr;
  }
  // Whether the `length` bytes at `at`, an address of this process, are all in one region.
  bool Contains(const uint8_t* at, uint64_t length) const {
    const auto address = reinterpret_cast<uintptr_t>(at);
    for (const Region& region : regions_) {
      const uint64_t offset = address - reinterpret_cast<uintptr_t>(region.host);
      if (offset < region.size && length <= region.size - offset) return true;
    }
    return false;
  }
  // The region with this address of this process, or null.
  const Region* RegionAt(const void* at) const {
    for (const Region& region : regions_) {
      if (reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(region.host) < region.size)
        return &region;
    }
    return nullptr;
  }
  bool empty() const { return regions_.empty(); }

 private:
  std::vector<Region> regions_;  // a machine has two to eight
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_GUEST_MEMORY_H_
