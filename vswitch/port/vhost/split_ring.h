// The memory layout of a split virtqueue (virtio 1.1 §2.6), which the guest's driver and the switch
// share.
#ifndef EOIB_VSWITCH_PORT_VHOST_SPLIT_RING_H_
#define EOIB_VSWITCH_PORT_VHOST_SPLIT_RING_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace eoib {

static_assert(std::endian::native == std::endian::little, "virtio is little-endian");

struct RingDescriptor {
  static constexpr uint16_t kNext = 1;
  static constexpr uint16_t kWrite = 2;  // for the device to write to
  static constexpr uint16_t kIndirect = 4;

  uint64_t address;  // guest-physical
  uint32_t length;
  uint16_t flags;
  uint16_t next;
};
static_assert(sizeof(RingDescriptor) == 16);

struct UsedElement {
  uint32_t head;
  uint32_t written;
};
static_assert(sizeof(UsedElement) == 8);

// The available ring, in 16-bit words: flags, index, `size` heads, and used_event if the driver
// accepted EVENT_IDX.
struct AvailRing {
  static constexpr uint16_t kNoInterrupt = 1;
  static constexpr size_t kFlags = 0, kIndex = 1, kHeads = 2;
  static constexpr size_t UsedEvent(uint16_t size) { return kHeads + size; }
  static constexpr size_t Bytes(uint16_t size, bool event_index) {
    return 2 * (UsedEvent(size) + (event_index ? 1 : 0));
  }
};

// The used ring, in 16-bit words: flags, index, `size` elements of four words, and avail_event if
// the driver accepted EVENT_IDX.
struct UsedRing {
  static constexpr uint16_t kNoNotify = 1;
  static constexpr size_t kFlags = 0, kIndex = 1, kElements = 2;
  static constexpr size_t ElementAt(uint16_t slot) { return kElements + 4 * size_t{slot}; }
  static constexpr size_t AvailEvent(uint16_t size) { return ElementAt(size); }
  static constexpr size_t Bytes(uint16_t size, bool event_index) {
    return 2 * (AvailEvent(size) + (event_index ? 1 : 0));
  }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_VHOST_SPLIT_RING_H_
