// FrameInBuffers: a frame as the switch hands it to a port, for tests of ports.
#ifndef EOIB_VSWITCH_PORT_FRAME_IN_BUFFERS_FOR_TEST_H_
#define EOIB_VSWITCH_PORT_FRAME_IN_BUFFERS_FOR_TEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/frame.h"

namespace eoib {

// Copies `bytes` into buffers of `pool`, at most `piece` bytes into each. The caller frees the
// frame.
inline Frame FrameInBuffers(BufferPool* pool, size_t piece, const std::vector<uint8_t>& bytes,
                            const ChecksumRequest& checksum = {}, const Gso& gso = {}) {
  Frame frame{pool->Allocate()};
  frame.data = pool->Frame(frame.buffer);
  frame.length = static_cast<uint32_t>(std::min(piece, bytes.size()));
  frame.checksum = checksum;
  frame.gso = gso;
  frame.rest = static_cast<uint32_t>(bytes.size()) - frame.length;
  std::copy_n(bytes.begin(), frame.length, frame.data);
  BufferId last = frame.buffer;
  for (size_t at = frame.length; at < bytes.size(); at += piece, ++frame.buffers) {
    const BufferId next = pool->Allocate();
    const size_t size = std::min(piece, bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, pool->Frame(next));
    pool->Append(last, next, pool->Frame(next), static_cast<uint32_t>(size));
    last = next;
  }
  return frame;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_FRAME_IN_BUFFERS_FOR_TEST_H_
