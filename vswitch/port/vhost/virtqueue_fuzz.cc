// The input is a guest's memory, with the rings at its start. Whatever is there, the queue finds
// only pieces of that memory, and ends.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "vswitch/base/check.h"
#include "vswitch/port/vhost/guest_memory.h"
#include "vswitch/port/vhost/virtqueue.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using eoib::Virtqueue;
  constexpr uint16_t kSize = 16;
  constexpr size_t kAvailable = kSize * sizeof(eoib::RingDescriptor), kUsed = kAvailable + 64,
                   kMemory = 2048;
  constexpr uint64_t kGuest = 0x1000;
  if (size == 0) return 0;
  // An allocation of exactly that size, so that a sanitizer sees what leaves it.
  std::vector<uint64_t> words(kMemory / sizeof(uint64_t));
  auto* const memory = reinterpret_cast<uint8_t*>(words.data());
  std::memcpy(memory, data + 1, std::min(size - 1, kMemory));
  const eoib::GuestMemory map({{kGuest, kMemory, memory}});
  const bool to_guest = (data[0] & 1) != 0;
  const uint16_t start = data[0] >> 3;
  Virtqueue queue;
  queue.Attach(0, {memory, memory + kAvailable, memory + kUsed, kSize},
               {.indirect = (data[0] & 2) != 0, .event_index = (data[0] & 4) != 0}, {start, start},
               &map, nullptr);
  eoib::DescriptorChain chain;
  size_t chains = 0;
  while (queue.Next(to_guest ? Virtqueue::Direction::kToGuest : Virtqueue::Direction::kFromGuest,
                    &chain)) {
    EOIB_CHECK(++chains <= 65536);
    uint64_t length = 0;
    EOIB_CHECK(chain.count <= eoib::DescriptorChain::kMost);
    for (const auto& piece : chain.pieces()) {
      EOIB_CHECK(piece.length != 0 && piece.data >= memory &&
                 piece.data + piece.length <= memory + kMemory);
      EOIB_CHECK(piece.data == memory + (piece.guest - kGuest));
      if (to_guest)
        std::memset(piece.data, 0x5a, piece.length);  // which may change the rings themselves
      length += piece.length;
    }
    EOIB_CHECK(chain.length == length);
    queue.Use(chain.head, static_cast<uint32_t>(length));
    queue.Publish();
  }
  EOIB_CHECK(queue.broken() == !queue.fault().empty());
  queue.EnableNotification();
  queue.DisableNotification();
  return 0;
}
