// Frame: an Ethernet frame on its way through the switch, in a buffer of the worker's pool, or in a
// chain of them.
#ifndef EOIB_VSWITCH_PORT_FRAME_H_
#define EOIB_VSWITCH_PORT_FRAME_H_

#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/wire/checksum.h"
#include "vswitch/wire/super_frame.h"

namespace eoib {

// `data` points to the destination MAC, near BufferPool::Frame(buffer). There is no FCS. A frame
// does not own its buffers; buffer_pool.h has the owners.
struct Frame {
  BufferId buffer;  // the first one
  uint8_t* data = nullptr;
  uint32_t length = 0;       // bytes in the first buffer
  ChecksumRequest checksum;  // from or for a virtio_net_hdr; offsets count from `data`
  uint32_t rest = 0;         // bytes in the other buffers
  uint8_t buffers = 1;
  // Of a super-frame from a port: the kernel has verified TCP's or UDP's (DATA_VALID)
  bool checksum_is_good = false;
  Gso gso;

  // Those in the first buffer. They have all headers that the switch reads.
  absl::Span<uint8_t> bytes() const { return absl::MakeSpan(data, length); }
  uint32_t total() const { return length + rest; }
  // True for a super-frame, and for another frame that is larger than a datagram. Only segments can
  // carry it.
  bool IsLarge() const { return buffers > 1 || gso.type != GsoType::kNone; }
};

// Calls `visit` with the bytes in each buffer of the frame.
template <typename Visit>
void VisitPieces(const BufferPool& pool, const Frame& frame, Visit visit) {
  visit(frame.bytes());
  for (BufferId id = pool.Next(frame.buffer); !id.IsNone(); id = pool.Next(id))
    visit(pool.Bytes(id));
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_FRAME_H_
