// ScatterList: the buffers into which one readv puts a frame of any size, so that each becomes one datagram (PieceLayout).
#ifndef EOIB_VSWITCH_PORT_SCATTER_LIST_H_
#define EOIB_VSWITCH_PORT_SCATTER_LIST_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/frame.h"
#include "vswitch/port/piece_layout.h"

namespace eoib {

// For one call of a port's Receive. Frees the buffers that are left.
class ScatterList {
 public:
  // `pool` outlives the list. With `large` false there is one buffer, which takes a frame of the pool's frame size.
  ScatterList(BufferPool* pool, uint32_t mtu, bool large);
  ~ScatterList();
  ScatterList(const ScatterList&) = delete;
  ScatterList& operator=(const ScatterList&) = delete;

  // Takes buffers from the pool in place of those that Take has given away. False if it has too few; then do not Read.
  bool Refill();
  // Reads one frame behind the `header_size` bytes of `header`. Returns readv's result.
  ssize_t Read(int fd, void* header, size_t header_size);
  // The largest frame that Read does not cut off.
  size_t largest() const { return largest_; }
  // Makes a frame of the first `length` bytes that Read has put into the buffers, at most largest(). Its buffers belong to the
  // caller.
  Frame Take(uint32_t length, const Gso& gso);

 private:
  void AppendRest(Frame* frame, uint32_t length);
  size_t Capacity(size_t i) const { return i == 0 ? first_ : layout_.piece; }

  BufferPool* const pool_;
  const PieceLayout layout_;
  const size_t first_;  // bytes in the first buffer
  const size_t largest_;
  const size_t count_;  // buffers of a full list
  size_t missing_;      // so many buffers, from the first on, are to be replaced
  uint8_t beyond_ = 0;  // takes a byte of a frame that is too large, which then shows by its length
  std::array<BufferId, kMaxSegments> buffers_;
  std::array<iovec, kMaxSegments + 2> parts_;  // header, buffers, beyond_
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_SCATTER_LIST_H_
