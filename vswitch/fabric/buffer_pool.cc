#include "vswitch/fabric/buffer_pool.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/error_advice.h"

namespace eoib {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMaxFrameSize = size_t{1} << 20;

constexpr size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

absl::Status BadSize(size_t buffers, size_t frame_size) {
  return absl::InvalidArgumentError(absl::StrCat(
      "create a pool of ", buffers, " buffers for frames of ", frame_size, " bytes: no such size"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Create(Hca* hca, ibv_pd* pd, size_t buffers,
                                                               size_t frame_size) {
  if (buffers == 0 || buffers >= BufferId::None().value()) return BadSize(buffers, frame_size);
  if (frame_size == 0 || frame_size > kMaxFrameSize) return BadSize(buffers, frame_size);
  std::unique_ptr<BufferPool> pool(new BufferPool());
  pool->hca_ = hca;
  pool->frame_size_ = frame_size;
  // One byte more than a frame, so that a longer datagram shows by its length.
  pool->stride_ = RoundUp(kFrameOffset + frame_size + 1, kCacheLine);
  const size_t bytes = pool->stride_ * buffers;
  const size_t mapped = RoundUp(bytes, bytes >= kHugePage ? kHugePage : kPage);
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return absl::ErrnoToStatus(errno, absl::StrCat("map ", mapped, " bytes of packet buffers"));
  pool->base_ = static_cast<uint8_t*>(base);
  pool->mapped_ = mapped;
  madvise(base, mapped, MADV_HUGEPAGE);  // a hint: fewer TLB misses where the kernel grants it
  pool->mr_ = hca->verbs().reg_mr(pd, base, mapped, IBV_ACCESS_LOCAL_WRITE);
  if (pool->mr_ == nullptr) {
    const int error = errno;
    return ErrnoWithAdvice(
        error, absl::StrCat("register ", mapped, " bytes of packet buffers on ", hca->name()),
        LockedMemoryAdvice(error));
  }
  pool->state_.assign(buffers, State::kFree);
  pool->links_.assign(buffers, Link());
  pool->holder_.assign(buffers, nullptr);
  pool->counts_[static_cast<size_t>(State::kFree)] = buffers;
  pool->free_.reserve(buffers);
  for (size_t i = buffers; i-- > 0;) pool->free_.push_back(static_cast<uint32_t>(i));
  return pool;
}

BufferPool::~BufferPool() {
  if (mr_ != nullptr) hca_->verbs().dereg_mr(mr_);
  if (base_ != nullptr) munmap(base_, mapped_);
}

uint32_t BufferPool::lkey() const { return mr_->lkey; }

// The state machine of buffer_pool.h.
bool BufferPool::MayMove(State from, State to) {
  switch (from) {
    case State::kFree:
      return to == State::kBatch || to == State::kPosted;
    case State::kBatch:
      return to == State::kFree || to == State::kInFlight || to == State::kHeld;
    case State::kPosted:
      return to == State::kBatch || to == State::kFree;
    case State::kInFlight:
      return to == State::kFree;
    case State::kHeld:
      return to == State::kBatch || to == State::kFree;
    case State::kCount:
      break;
  }
  return false;
}

void BufferPool::MoveChain(BufferId head, State to) {
  while (!head.IsNone()) {
    const BufferId next = Next(head);
    Move(head, to);
    head = next;
  }
}

void BufferPool::Append(BufferId last, BufferId next, const uint8_t* data, uint32_t length) {
  EOIB_DCHECK(Next(last).IsNone() && Next(next).IsNone());
  links_[last.value()].next = next.value();
  Link& link = links_[next.value()];
  link.offset = static_cast<uint16_t>(data - (base_ + next.value() * stride_));
  link.length = static_cast<uint16_t>(length);
}

bool BufferPool::IsHeldBy(const UdEndpoint* endpoint, BufferId id) const {
  const State state = StateOf(id);
  return (state == State::kPosted || state == State::kInFlight) && holder_[id.value()] == endpoint;
}

}  // namespace eoib
