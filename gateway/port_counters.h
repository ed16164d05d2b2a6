// Counters of a gateway's port: frames from the translation to the VES, and the reasons for dropping them. At any time
//
//     frames_out of the translation = frames_handed + frame_drops + frames_waiting
//
// in the names of `gateway stats`.
#ifndef EOIB_GATEWAY_PORT_COUNTERS_H_
#define EOIB_GATEWAY_PORT_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "gateway/translation/counters.h"

namespace eoib::gateway {

// X(enumerator, label, what happened and what an operator can do)
#define EOIB_GATEWAY_PORT_DROPS(X)                                                            \
  X(kQueueFull, "ves_queue_full", "frame to the VES while 1,024 others wait for its buffers") \
  X(kFrameTooLong, "ves_frame_too_long", "frame to the VES that is longer than the buffers of the VES")

enum class PortDrop : uint8_t {
#define EOIB_X(name, label, help) name,
  EOIB_GATEWAY_PORT_DROPS(EOIB_X)
#undef EOIB_X
      kCount,
};
inline constexpr size_t kPortDrops = static_cast<size_t>(PortDrop::kCount);

inline constexpr std::array<translation::CounterInfo, kPortDrops> kPortDropInfo = {{
#define EOIB_X(name, label, help) {label, help},
    EOIB_GATEWAY_PORT_DROPS(EOIB_X)
#undef EOIB_X
}};

// One writer: the worker that owns the port.
struct PortCounters {
  uint64_t handed = 0;  // to the VES
  uint64_t waiting = 0;  // for a buffer of the VES
  std::array<uint64_t, kPortDrops> drops{};

  void Drop(PortDrop reason) { ++drops[static_cast<size_t>(reason)]; }
  uint64_t operator[](PortDrop reason) const { return drops[static_cast<size_t>(reason)]; }
  uint64_t DropSum() const { return std::accumulate(drops.begin(), drops.end(), uint64_t{0}); }
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_PORT_COUNTERS_H_
