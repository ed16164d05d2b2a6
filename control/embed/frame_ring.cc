#include "control/embed/frame_ring.h"

#include <algorithm>
#include <cstring>

namespace eoib {
namespace {

void Scatter(absl::Span<const uint8_t> bytes, const eoib_frame& to) {
  for (uint32_t i = 0; !bytes.empty(); ++i) {
    const size_t part = std::min(bytes.size(), to.iov[i].iov_len);
    std::memcpy(to.iov[i].iov_base, bytes.data(), part);
    bytes.remove_prefix(part);
  }
}

}  // namespace

size_t RoomIn(const eoib_frame& frame) {
  size_t room = 0;
  for (uint32_t i = 0; i < frame.iov_count; ++i) room += frame.iov[i].iov_len;
  return room;
}

void Put(absl::Span<const uint8_t> bytes, const eoib_frame& metadata, eoib_frame* to) {
  Scatter(bytes, *to);
  const iovec* const iov = to->iov;
  const uint32_t count = to->iov_count;
  *to = metadata;
  to->iov = iov;
  to->iov_count = count;
}

FrameRing::Pushed FrameRing::Push(absl::Span<const uint8_t> bytes, const eoib_frame& metadata) {
  absl::MutexLock lock(&mutex_);
  const size_t count = count_.load(std::memory_order_relaxed);
  if (count == kCapacity) return Pushed::kFull;
  Kept& kept = frames_[(first_ + count) % kCapacity];
  kept.bytes.assign(bytes.begin(), bytes.end());
  kept.metadata = metadata;
  count_.store(count + 1);
  return count == 0 ? Pushed::kFirst : Pushed::kFurther;
}

FrameRing::Taken FrameRing::Take(eoib_frame* to) {
  if (empty()) return Taken::kNone;
  absl::MutexLock lock(&mutex_);
  const Kept& kept = frames_[first_];
  const bool fits = RoomIn(*to) >= kept.bytes.size();
  if (fits) Put(kept.bytes, kept.metadata, to);
  first_ = (first_ + 1) % kCapacity;
  count_.store(count_.load(std::memory_order_relaxed) - 1);
  return fits ? Taken::kFrame : Taken::kTooLarge;
}

}  // namespace eoib
