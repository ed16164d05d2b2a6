#include "vswitch/port/scatter_list.h"

#include <algorithm>
#include <cstring>

#include "absl/base/optimization.h"
#include "vswitch/base/check.h"

namespace eoib {

ScatterList::ScatterList(BufferPool* pool, uint32_t mtu, bool large)
    : pool_(pool),
      layout_(mtu),
      first_(large ? layout_.first : pool->frame_capacity()),
      largest_(large ? layout_.Largest() : pool->frame_size()),
      count_(large ? layout_.BuffersFor(largest_) : 1),
      missing_(count_) {
  buffers_.fill(BufferId::None());
  parts_[count_ + 1] = {&beyond_, sizeof(beyond_)};
}

ScatterList::~ScatterList() {
  for (size_t i = 0; i < count_; ++i) pool_->Free(buffers_[i]);  // freeing none does nothing
}

bool ScatterList::Refill() {
  for (; missing_ != 0; --missing_) {
    const size_t i = missing_ - 1;
    buffers_[i] = pool_->Allocate();
    if (ABSL_PREDICT_FALSE(buffers_[i].IsNone())) return false;
    parts_[i + 1] = {pool_->Frame(buffers_[i]), Capacity(i)};
  }
  return true;
}

ssize_t ScatterList::Read(int fd, void* header, size_t header_size) {
  parts_[0] = {header, header_size};
  return readv(fd, parts_.data(), static_cast<int>(count_ + 2));
}

Frame ScatterList::Take(uint32_t length, const Gso& gso) {
  EOIB_DCHECK(missing_ == 0 && length <= largest_);
  Frame frame{buffers_[0], pool_->Frame(buffers_[0]), length};
  frame.gso = gso;
  if (length > first_ && length <= layout_.datagram && gso.type == GsoType::kNone) {
    // It fits one datagram, which needs no extension: copy its tail, which has at most 12 bytes, back.
    std::memcpy(frame.data + first_, pool_->Frame(buffers_[1]), length - first_);
  } else if (length > first_) {
    AppendRest(&frame, length);
  }
  missing_ = frame.buffers;
  std::fill_n(buffers_.begin(), frame.buffers, BufferId::None());
  return frame;
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
