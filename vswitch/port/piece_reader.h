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
#include "vswitch/wire/ip/ones_complement_sum.h"

namespace eoib {

class PieceReader {
 public:
  // `pool` has the frame's buffers. Both stay as they are while the reader is used.
  PieceReader(const BufferPool* pool, const Frame& frame)
      : pool_(pool), next_(pool->Next(frame.buffer)), left_(frame.bytes()) {}
  // For bytes in one piece.
  explicit PieceReader(absl::Span<const uint8_t> bytes) : left_(bytes) {}

  void Skip(size_t bytes) { left_.remove_prefix(bytes); }  // within the first buffer
  // Requires that `bytes` bytes are left.
  void Copy(size_t bytes, uint8_t* to) {
    while (bytes != 0) {
      const absl::Span<const uint8_t> now = Take(bytes);
      std::memcpy(to, now.data(), now.size());
      to += now.size();
      bytes -= now.size();
    }
  }
  // The same. Returns the bytes' one's-complement sum.
  uint16_t CopyAndSum(size_t bytes, uint8_t* to) {
    return SumPieces(bytes, [&to](absl::Span<const uint8_t> piece) {
      const uint16_t sum = eoib::CopyAndSum(piece, to);
      to += piece.size();
      return sum;
    });
  }
  // The same without a copy.
  uint16_t Sum(size_t bytes) {
    return SumPieces(bytes,
                     [](absl::Span<const uint8_t> piece) { return OnesComplementSum(piece); });
  }

 private:
  template <typename SumOne>
  uint16_t SumPieces(size_t bytes, SumOne sum_one) {
    uint32_t sum = 0;
    for (size_t summed = 0; summed != bytes;) {
      const absl::Span<const uint8_t> piece = Take(bytes - summed);
      const uint16_t part = sum_one(piece);
      sum += summed % 2 == 0 ? part : SwapBytes(part);  // RFC 1071 §2 (B)
      summed += piece.size();
    }
    return OnesComplementSum({}, sum);
  }
  static uint16_t SwapBytes(uint16_t sum) { return static_cast<uint16_t>(sum << 8 | sum >> 8); }
  // The next bytes in one buffer, up to `most`.
  absl::Span<const uint8_t> Take(size_t most) {
    if (left_.empty()) {
      left_ = pool_->Bytes(next_);
      next_ = pool_->Next(next_);
    }
    const absl::Span<const uint8_t> taken = left_.first(std::min(most, left_.size()));
    left_.remove_prefix(taken.size());
    return taken;
  }

  const BufferPool* pool_ = nullptr;
  BufferId next_ = BufferId::None();
  absl::Span<const uint8_t> left_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_PIECE_READER_H_
