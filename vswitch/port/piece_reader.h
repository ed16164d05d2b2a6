// PieceReader: reads the bytes of a frame in their order, from one buffer or from a chain of them.
#ifndef EOIB_VSWITCH_PORT_PIECE_READER_H_
#define EOIB_VSWITCH_PORT_PIECE_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/port/frame.h"

namespace eoib {

class PieceReader {
 public:
  // `pool` has the frame's buffers. Both stay as they are while the reader is used.
  PieceReader(const BufferPool* pool, const Frame& frame)
      : pool_(pool), next_(pool->Next(frame.buffer)), left_(frame.bytes()) {}
  // For bytes in one piece.
  explicit PieceReader(absl::Span<const uint8_t> bytes) : left_(bytes) {}

  void Skip(size_t bytes) { left_.remove_prefix(bytes); }  // within the first buffer
  // Requires that so many bytes are left.
  void Copy(size_t bytes, uint8_t* to) {
    while (bytes != 0) {
      if (left_.empty()) {
        left_ = pool_->Bytes(next_);
        next_ = pool_->Next(next_);
      }
      const size_t now = std::min(bytes, left_.size());
      std::memcpy(to, left_.data(), now);
      left_.remove_prefix(now);
      to += now;
      bytes -= now;
    }
  }

 private:
  const BufferPool* pool_ = nullptr;
  BufferId next_ = BufferId::None();
  absl::Span<const uint8_t> left_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PIECE_READER_H_
