#include "vswitch/port/scatter_list.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "vswitch/base/check.h"

namespace eoib {

ScatterList::ScatterList(BufferPool* pool, uint32_t mtu, Spill* spill, uint32_t tags)
    : pool_(pool),
      spill_(spill),
      layout_(mtu, tags),
      first_(spill != nullptr ? layout_.first : pool->frame_capacity()),
      largest_(spill != nullptr ? layout_.Largest() : pool->frame_size()),
      count_(spill != nullptr ? layout_.BuffersFor(largest_) : 1),
      narrow_(spill != nullptr && spill->expects_small_frames()),
      missing_(narrow_ ? 1 : count_) {
  buffers_.fill(BufferId::None());
  // A frame with one byte too many shows by its length.
  parts_[PartCount() - 1] =
      spill != nullptr ? iovec{spill->bytes, Spill::kSize} : iovec{&beyond_, sizeof(beyond_)};
}

ScatterList::~ScatterList() {
  for (size_t i = 0; i < count_; ++i) pool_->Free(buffers_[i]);  // freeing none does nothing
}

bool ScatterList::Refill() {
  // Spread needs them if the next frame is large.
  if (narrow_ && ABSL_PREDICT_FALSE(pool_->count(BufferPool::State::kFree) < count_)) return false;
  for (; missing_ != 0; --missing_) {
    const size_t i = missing_ - 1;
    buffers_[i] = pool_->Allocate();
    if (ABSL_PREDICT_FALSE(buffers_[i].IsNone())) return false;
    parts_[i + 1] = {pool_->Frame(buffers_[i]), Capacity(i)};
  }
  return true;
}

ssize_t ScatterList::Read(int fd, void* header, size_t header_size) {
  const absl::Span<iovec> parts = Parts(header, header_size);
  return readv(fd, parts.data(), static_cast<int>(parts.size()));
}

absl::Span<iovec> ScatterList::Parts(void* header, size_t header_size) {
  parts_[0] = {header, header_size};
  return absl::MakeSpan(parts_).first(PartCount());
}

void ScatterList::Copy(uint32_t length, uint8_t* to) const {
  for (size_t i = 1; length != 0; ++i) {
    const auto size = static_cast<uint32_t>(std::min<size_t>(length, parts_[i].iov_len));
    std::memcpy(to, parts_[i].iov_base, size);
    to += size;
    length -= size;
  }
}

// Copies the spilled bytes of a frame of `length` into buffers of their own, and makes the list
// wide.
void ScatterList::Spread(uint32_t length) {
  const uint8_t* from = spill_->bytes;
  size_t left = length - first_;
  for (size_t i = 1; left != 0; ++i) {
    const size_t size = std::min<size_t>(left, layout_.piece);
    buffers_[i] = pool_->Allocate();
    std::memcpy(pool_->Frame(buffers_[i]), from, size);
    from += size;
    left -= size;
  }
  narrow_ = false;
  parts_[count_ + 1] = {spill_->bytes, Spill::kSize};
}

Frame ScatterList::Take(uint32_t length, const Gso& gso, uint32_t tag) {
  EOIB_DCHECK(missing_ == 0 && length <= largest_);
  Frame frame{buffers_[0], pool_->Frame(buffers_[0]), length};
  frame.gso = gso;
  if (length <= first_) {
    if (spill_ != nullptr) ++spill_->small_frames;
    missing_ = 1;
    buffers_[0] = BufferId::None();
    return frame;
  }
  spill_->small_frames = 0;
  const bool spilled = narrow_;
  if (spilled) Spread(length);
  if (length + tag <= layout_.datagram && gso.type == GsoType::kNone) {
    // It fits one datagram, which needs no extension: copy its tail, which has at most 16 bytes,
    // back.
    std::memcpy(frame.data + first_, pool_->Frame(buffers_[1]), length - first_);
  } else {
    AppendRest(&frame, length);
  }
  std::fill_n(buffers_.begin(), frame.buffers, BufferId::None());
  missing_ = frame.buffers;
  if (spilled) ReplaceAll();
  return frame;
}

// After Spread, the list has buffers in some of its places only.
void ScatterList::ReplaceAll() {
  for (BufferId& buffer : buffers_) pool_->Free(std::exchange(buffer, BufferId::None()));
  missing_ = count_;
}

// Links the buffers behind the first one that have bytes of a frame of `length`.
void ScatterList::AppendRest(Frame* frame, uint32_t length) {
  frame->length = static_cast<uint32_t>(first_);
  frame->rest = length - frame->length;
  for (uint32_t left = frame->rest; left != 0; ++frame->buffers) {
    const BufferId buffer = buffers_[frame->buffers];
    const uint32_t bytes = std::min(left, layout_.piece);
    pool_->Append(buffers_[frame->buffers - 1], buffer, pool_->Frame(buffer), bytes);
    left -= bytes;
  }
}

}  // namespace eoib
