// Frame: an Ethernet frame on its way through the switch, in a buffer of the worker's pool.
#ifndef EOIB_VSWITCH_PORT_FRAME_H_
#define EOIB_VSWITCH_PORT_FRAME_H_

#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/wire/checksum.h"

namespace eoib {

// `data` points to the destination MAC, near BufferPool::Frame(buffer). There is no FCS. A frame does not own its buffer;
// buffer_pool.h has the owners.
struct Frame {
  BufferId buffer;
  uint8_t* data = nullptr;
  uint32_t length = 0;
  ChecksumRequest checksum;  // from or for a virtio_net_hdr; offsets count from `data`

  absl::Span<uint8_t> bytes() const { return absl::MakeSpan(data, length); }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_FRAME_H_
