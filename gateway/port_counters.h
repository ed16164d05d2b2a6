// Counters of a gateway's port: frames from the translation to the VES, and the reasons for dropping them. At any time
//
//     frames_out of the translation = frames_handed + frame_drops + frames_waiting
//
// in the names of `gateway stats`.
#ifndef EOIB_GATEWAY_PORT_COUNTERS_H_
#define EOIB_GATEWAY_PORT_COUNTERS_H_

#include <cstdint>

#include "gateway/ipoib/labelled_counters.h"

namespace eoib::gateway {

// X(enumerator, label, help)
#define EOIB_GATEWAY_PORT_DROPS(X)                                                            \
  X(kQueueFull, "ves_queue_full", "frame to the VES while 1,024 others wait for its buffers") \
  X(kFrameTooLong, "ves_frame_too_long", "frame to the VES that is longer than the buffers of the VES")

EOIB_DEFINE_LABELLED(PortDrop, EOIB_GATEWAY_PORT_DROPS)

// One writer: the worker that owns the port.
struct PortCounters {
  uint64_t handed = 0;  // to the VES
  uint64_t waiting = 0;  // for a buffer of the VES
  ipoib::LabelledCounters<PortDrop> drops;

  uint64_t operator[](PortDrop reason) const { return drops[reason]; }
};

}  // namespace eoib::gateway

#endif  // EOIB_GATEWAY_PORT_COUNTERS_H_
