#include "vswitch/fabric/softhca/ring.h"

#include <cstring>
#include <utility>

#include "vswitch/base/check.h"

namespace eoib::softhca {

RingProducer::RingProducer(std::shared_ptr<RingMemory> memory)
    : memory_(std::move(memory)),
      data_(memory_->data()),
      index_(memory_->index()),
      capacity_(memory_->capacity()) {}

// The consumer can only move forward, from record to record, and not past what was published.
bool RingProducer::IsPossibleTail(uint64_t tail) const {
  return tail >= cached_tail_ && tail <= published_ && tail % kRecordAlignment == 0;
}

bool RingProducer::HasRoom(uint64_t bytes) {
  if (head_ - cached_tail_ + bytes <= capacity_) return true;
  const uint64_t tail = index_->tail.load(std::memory_order_seq_cst);
  if (!IsPossibleTail(tail)) {
    corrupt_ = true;
    return false;
  }
  cached_tail_ = tail;
  return head_ - cached_tail_ + bytes <= capacity_;
}

uint8_t* RingProducer::Reserve(size_t payload) {
  EOIB_DCHECK(payload <= kMaxRecordPayload);
  const uint64_t position = head_ & (capacity_ - 1);
  const uint64_t to_end = capacity_ - position;
  const uint64_t size = RecordSize(payload);
  const uint64_t skip = size > to_end ? to_end : 0;
  if (!HasRoom(size + skip)) return nullptr;
  if (skip == 0) return data_ + position;
  RecordHeader header;
  header.kind = RecordHeader::kSkip;
  std::memcpy(data_ + position, &header, sizeof(header));
  head_ += skip;
  return data_;
}

bool RingProducer::Publish() {
  if (head_ == published_) return false;
  published_ = head_;
  index_->head.store(head_, std::memory_order_seq_cst);
  return TakeArmed();
}

bool RingProducer::TakeArmed() {
  return index_->armed.load(std::memory_order_seq_cst) != 0 &&
         index_->armed.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingProducer::Release() {
  index_->released.store(1, std::memory_order_seq_cst);
  return TakeArmed();
}

uint64_t RingProducer::CountUntaken() const {
  const uint64_t tail = index_->tail.load(std::memory_order_seq_cst);
  return RingConsumer(memory_, IsPossibleTail(tail) ? tail : cached_tail_).DiscardUpTo(published_);
}

RingConsumer::RingConsumer(std::shared_ptr<RingMemory> memory)
    : memory_(std::move(memory)),
      data_(memory_->data()),
      index_(memory_->index()),
      capacity_(memory_->capacity()) {}

RingConsumer::RingConsumer(std::shared_ptr<RingMemory> memory, uint64_t tail)
    : RingConsumer(std::move(memory)) {
  tail_ = published_ = cached_head_ = tail;
}

// Returns false if the producer's position is impossible.
bool RingConsumer::Refill() {
  const uint64_t head = Head();
  if (head - tail_ > capacity_ || head % kRecordAlignment != 0) return false;
  cached_head_ = head;
  return true;
}

RingConsumer::Next RingConsumer::Peek(RecordHeader* header, const uint8_t** payload) {
  for (;;) {
    if (tail_ == cached_head_) {
      if (!Refill()) return Next::kCorrupt;
      if (tail_ == cached_head_) return Next::kEmpty;
    }
    const uint64_t position = tail_ & (capacity_ - 1);
    const uint64_t to_end = capacity_ - position;
    const uint64_t available = cached_head_ - tail_;
    LoadHeader(data_ + position, header);
    if (header->kind == RecordHeader::kDatagram && header->length <= kMaxRecordPayload) {
      record_size_ = RecordSize(header->length);
      if (record_size_ > available || record_size_ > to_end) return Next::kCorrupt;
      *payload = data_ + position + sizeof(*header);
      return Next::kRecord;
    }
    // A skip record is valid only if the next record would not fit before the end of the ring, and
    // if that record follows it.
    if (header->kind != RecordHeader::kSkip || position == 0 || to_end >= available)
      return Next::kCorrupt;
    if (to_end >= RecordSize(kMaxRecordPayload)) return Next::kCorrupt;
    tail_ += to_end;
  }
}

uint64_t RingConsumer::DiscardUpTo(uint64_t head) {
  last_head_ = head;
  RecordHeader header;
  const uint8_t* payload;
  uint64_t count = 0;
  for (; Peek(&header, &payload) == Next::kRecord; ++count) Release();
  return count;
}

bool RingConsumer::Publish() {
  if (tail_ == published_) return false;
  published_ = tail_;
  index_->tail.store(tail_, std::memory_order_seq_cst);
  if (index_->space_wanted.load(std::memory_order_seq_cst) == 0) return false;
  // Wake the producer only when half of the ring, or all of it, is free: waking it for each record
  // would cost more than it gains.
  const uint64_t head = Head();
  if (head != tail_ && head - tail_ > capacity_ / 2) return false;
  return index_->space_wanted.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingConsumer::Arm() {
  if (index_->armed.load(std::memory_order_relaxed) == 0)
    index_->armed.store(1, std::memory_order_seq_cst);
  return HasData() || (!last_head_.has_value() && Released());
}

}  // namespace eoib::softhca
