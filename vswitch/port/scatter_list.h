// ScatterList: the buffers into which one readv puts a frame of any size, so that each becomes one
// datagram (PieceLayout).
//
// The kernel's work for a readv grows with the number of parts, so after a run of small frames the
// list is narrow: one buffer, and a spill area behind it. A large frame is then copied once out of
// the spill area, and the list is wide again.
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
  // Belongs to a port whose lists take large frames, and lasts from list to list.
  struct Spill {
    static constexpr uint32_t kNarrowAfter = 32;
    static constexpr size_t kSize = kLargestSuperFrame;

    uint8_t* bytes = nullptr;   // kSize bytes
    uint32_t small_frames = 0;  // since the last frame that one buffer does not take

    bool expects_small_frames() const { return small_frames >= kNarrowAfter; }
  };

  // `pool` and `spill` outlive the list. With `spill` null there is one buffer, which takes a frame
  // of the pool's frame size. `tags` as for PieceLayout.
  ScatterList(BufferPool* pool, uint32_t mtu, Spill* spill, uint32_t tags = 1);
  ~ScatterList();
  ScatterList(const ScatterList&) = delete;
  ScatterList& operator=(const ScatterList&) = delete;

  // Takes buffers from the pool in place of those that Take has given away. False if it has too
  // few; then do not Read.
  bool Refill();
  // Reads one frame behind the `header_size` bytes of `header`. Returns readv's result.
  ssize_t Read(int fd, void* header, size_t header_size);
  // The places of header and frame, for another call than readv.
  absl::Span<iovec> Parts(void* header, size_t header_size);
  // The largest frame that Take makes. A larger one shows by its length.
  size_t largest() const { return largest_; }
  const PieceLayout& layout() const { return layout_; }
  // Makes a frame of the first `length` bytes that Read has put into the buffers, at most
  // largest(). The caller will insert a tag of `tag` bytes, or none. The buffers belong to the
  // caller.
  Frame Take(uint32_t length, const Gso& gso, uint32_t tag = 0);
  // With a spill area: copies a frame of up to Spill::kSize bytes more than the first buffer takes
  // to `to`, whether or not Take would take it.
  void Copy(uint32_t length, uint8_t* to) const;

 private:
  void Spread(uint32_t length);
  void ReplaceAll();
  void AppendRest(Frame* frame, uint32_t length);
  size_t PartCount() const { return narrow_ ? 3 : count_ + 2; }
  size_t Capacity(size_t i) const { return i == 0 ? first_ : layout_.piece; }

  BufferPool* const pool_;
  Spill* const spill_;  // or null
  const PieceLayout layout_;
  const size_t first_;  // bytes in the first buffer
  const size_t largest_;
  const size_t count_;  // buffers of the largest frame
  bool narrow_;
  size_t missing_;      // number of buffers, from the first on, that are to be replaced
  uint8_t beyond_ = 0;  // without a spill area: takes a byte of a frame that is too large
  std::array<BufferId, kMaxSegments> buffers_;
  // Header, buffers (if narrow, one), spill area or beyond_.
  std::array<iovec, kMaxSegments + 2> parts_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_SCATTER_LIST_H_
