#include "vswitch/fabric/send_queue.h"

#include <bit>

#include "absl/base/optimization.h"
#include "vswitch/base/check.h"

namespace eoib {

SendQueue::SendQueue(BufferPool* pool, AddressHandles* handles, const UdEndpoint* endpoint,
                     size_t depth)
    : pool_(pool),
      handles_(handles),
      endpoint_(endpoint),
      depth_(depth),
      requests_(depth + 1),
      sges_(depth),
      sent_(std::bit_ceil(depth)),
      mask_(sent_.size() - 1) {
  for (size_t i = 0; i < depth; ++i) {
    sges_[i].lkey = pool->lkey();
    requests_[i].sg_list = &sges_[i];
    requests_[i].num_sge = 1;
    requests_[i].opcode = IBV_WR_SEND;
    requests_[i].next = &requests_[i + 1];
  }
}

SendQueue::~SendQueue() {
  while (head_ != tail_) Finish(at(head_++));
}

// A handle costs an atomic operation, and most neighbours go the same way.
inline bool SendQueue::Acquire(AhIndex ah) {
  if (ABSL_PREDICT_TRUE(prepared_ != 0 && ah == held_)) return true;
  ibv_ah* const acquired = handles_->Acquire(ah);
  if (ABSL_PREDICT_FALSE(acquired == nullptr)) return false;  // control has retired it meanwhile
  ah_ = acquired;
  held_ = ah;
  return true;
}

inline void SendQueue::Prepare(const SendRequest& request, uint32_t qkey) {
  EOIB_DCHECK(request.ah == held_);
  ibv_sge& sge = sges_.data()[prepared_];
  sge.addr = reinterpret_cast<uintptr_t>(request.payload);
  sge.length = request.length;
  ibv_send_wr& wr = requests_.data()[prepared_];
  wr.wr_id = request.buffer.value();
  wr.send_flags = request.length <= inline_limit_ ? IBV_SEND_INLINE : 0;
  wr.wr.ud.ah = ah_;
  wr.wr.ud.remote_qpn = request.qpn.value();
  wr.wr.ud.remote_qkey = qkey;
  if (prepared_ != 0) {
    Sent& before = at(tail_ + prepared_ - 1);
    if (before.ah == held_) before.ah = AhIndex::None();
  }
  at(tail_ + prepared_++) = {request.buffer, request.ah, request.train == 1};
}

DropReason SendQueue::Add(absl::Span<const SendRequest> train, uint32_t qkey) {
  if (ABSL_PREDICT_FALSE(in_flight() + prepared_ + train.size() > depth_))
    return DropReason::kSendQueueFull;
  if (!Acquire(train.front().ah)) return DropReason::kUnresolved;
  for (const SendRequest& request : train) Prepare(request, qkey);
  return DropReason::kNone;
}

size_t SendQueue::Post(ibv_qp* qp, int* error) {
  *error = 0;
  if (prepared_ == 0) return 0;
  ibv_send_wr& last = requests_[prepared_ - 1];
  ibv_send_wr* const behind = last.next;
  last.next = nullptr;
  last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = &requests_[0];
  *error = ibv_post_send(qp, &requests_[0], &bad);
  last.next = behind;
  // The requests before `bad` are posted.
  const size_t posted = *error == 0 ? prepared_ : static_cast<size_t>(bad - &requests_[0]);
  if (ABSL_PREDICT_FALSE(posted != prepared_)) Withdraw(posted);
  for (const size_t end = tail_ + posted; tail_ != end; ++tail_) {
    const Sent& sent = at(tail_);
    pool_->Move(sent.buffer, BufferPool::State::kInFlight, endpoint_);
    trains_in_flight_ += sent.ends_train;
  }
  prepared_ = 0;
  return posted;
}

// Gives back the handles of the requests from `posted` on. A handle that one before holds together
// with them is left to it.
void SendQueue::Withdraw(size_t posted) {
  bool shared = posted != 0 && at(tail_ + posted - 1).ah.IsNone();
  for (size_t i = posted; i < prepared_; ++i) {
    const AhIndex ah = at(tail_ + i).ah;
    if (ah.IsNone()) continue;
    if (shared) {
      at(tail_ + posted - 1).ah = ah;
      shared = false;
    } else {
      handles_->Release(ah);
    }
  }
}

SendQueue::Completed SendQueue::Complete(const ibv_wc& wc) {
  const BufferId buffer(static_cast<uint32_t>(wc.wr_id));
  EOIB_DCHECK(pool_->IsHeldBy(endpoint_, buffer));
  Completed completed;
  while (head_ != tail_) {
    const Sent sent = at(head_++);
    completed.trains += sent.ends_train;
    trains_in_flight_ -= sent.ends_train;
    Finish(sent);
    if (sent.buffer != buffer) continue;
    completed.failed = wc.status != IBV_WC_SUCCESS && sent.ends_train ? 1 : 0;
    break;
  }
  return completed;
}

void SendQueue::Finish(const Sent& sent) {
  EOIB_DCHECK(pool_->StateOf(sent.buffer) == BufferPool::State::kInFlight);
  if (!sent.ah.IsNone()) handles_->Release(sent.ah);
  pool_->Move(sent.buffer, BufferPool::State::kFree);
}

}  // namespace eoib
