// A single-producer, single-consumer ring of datagrams in memory that two processes may share
// (README.md, "Rings", "Trust").
//
// Sleeping: a consumer sets `armed` and looks for records once more; a producer publishes, then
// reads `armed`. All four accesses are sequentially consistent, so one side sees the other's store.
// `space_wanted` works the same way in the other direction.
//
// The other end may write any bytes at any time. No member loops for longer than one record takes,
// but a producer that never stops keeps its consumer busy, so callers of Peek must bound their
// turn.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_RING_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/ring_memory.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib::softhca {

inline constexpr size_t kRecordAlignment = 64;
// A datagram of the largest MTU, and some room.
inline constexpr size_t kMaxRecordPayload = 4096 + 64;

// In host byte order: both ends are on one host.
struct RecordHeader {
  enum Kind : uint8_t { kDatagram = 1, kSkip = 2 };
  // kWaitsForRoom: used in a port's parking queue only. The record found its ring full.
  enum Flags : uint8_t { kGlobal = 1, kSolicited = 2, kImmediate = 4, kWaitsForRoom = 0x80 };

  uint32_t length = 0;  // of the payload; 0 in a skip record
  uint8_t kind = kDatagram;
  uint8_t flags = 0;
  uint8_t sl = 0;
  uint8_t hop_limit = 0;
  uint32_t destination_qpn = 0;
  uint32_t source_qpn = 0;
  uint32_t qkey = 0;
  uint16_t pkey = 0;
  uint16_t dlid = 0;
  uint32_t immediate = 0;  // network order, as in the work request
  uint32_t flow_label = 0;
  uint32_t psn = 0;
  uint8_t traffic_class = 0;
  std::array<uint8_t, 3> reserved{};
  std::array<uint8_t, 16> dgid{};
  int64_t stamp = 0;  // used in a port's parking queue only: when the record was parked
};
static_assert(sizeof(RecordHeader) == kRecordAlignment && sizeof(RecordHeader) == kRingHeaderSize);
// No padding, so that no uninitialised memory leaks into a ring.
static_assert(std::has_unique_object_representations_v<RecordHeader>);

// The length of its packet in words of four bytes, without the VCRC, as port counters count data
// (IBA 1.4 §16.1.3.5).
constexpr uint64_t WireWords(const RecordHeader& header) {
  const size_t absent = (header.flags & RecordHeader::kGlobal) != 0 ? 0 : kGrhSize;
  const size_t immediate =
      (header.flags & RecordHeader::kImmediate) != 0 ? sizeof(header.immediate) : 0;
  return (UdPacketSize(header.length) - kVcrcSize - absent + immediate) / 4;
}

constexpr size_t RecordSize(size_t payload) {
  return sizeof(RecordHeader) +
         (payload + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// One thread at a time.
class RingProducer {
 public:
  explicit RingProducer(std::shared_ptr<RingMemory> memory);

  // Returns room for a record with `payload` <= kMaxRecordPayload bytes: the header's place, with
  // the payload right behind it. Null if there is no room now. Commit must follow.
  uint8_t* Reserve(size_t payload);
  void Commit(size_t payload) { head_ += RecordSize(payload); }
  // Makes committed records visible. True if the consumer wants its doorbell rung.
  bool Publish();

  // Asks the consumer to ring the space eventfd when it has made room. The caller tries Reserve
  // once more before it waits.
  void WantSpace() {
    if (index_->space_wanted.load(std::memory_order_seq_cst) == 0)
      index_->space_wanted.store(1, std::memory_order_seq_cst);
  }
  // Promises that nothing more will be published. True if the consumer wants its doorbell rung.
  bool Release();
  // True if the consumer has left and takes nothing more.
  bool ConsumerHasLeft() const {
    return (index_->left.load(std::memory_order_seq_cst) & RingIndex::kConsumer) != 0;
  }
  // Leaves the ring. True if the consumer left first; then the producer counts the records that
  // were not taken, else the consumer counts them.
  bool Leave() {
    return (index_->left.fetch_or(RingIndex::kProducer, std::memory_order_seq_cst) &
            RingIndex::kConsumer) != 0;
  }
  // The number of records that the consumer has not taken. Exact once it has left or died.
  uint64_t CountUntaken() const;
  // True if the consumer has taken all published records.
  bool Drained() const { return index_->tail.load(std::memory_order_acquire) == published_; }
  // True if the consumer's position was impossible: the ring is unusable.
  bool corrupt() const { return corrupt_; }
  uint64_t tail() const { return index_->tail.load(std::memory_order_acquire); }
  uint64_t capacity() const { return memory_->capacity(); }

 private:
  bool IsPossibleTail(uint64_t tail) const;
  bool HasRoom(uint64_t bytes);
  bool TakeArmed();

  std::shared_ptr<RingMemory> memory_;
  uint8_t* const data_;
  RingIndex* const index_;
  const uint64_t capacity_;
  uint64_t head_ = 0;
  uint64_t published_ = 0;
  uint64_t cached_tail_ = 0;
  bool corrupt_ = false;
};

// One thread at a time.
class RingConsumer {
 public:
  enum class Next { kRecord, kEmpty, kCorrupt };

  explicit RingConsumer(std::shared_ptr<RingMemory> memory);
  // Starts at position `tail` instead of 0.
  RingConsumer(std::shared_ptr<RingMemory> memory, uint64_t tail);

  // Returns the next record: a checked copy of its header, and the address of its payload, which
  // the other side may still overwrite.
  Next Peek(RecordHeader* header, const uint8_t** payload);
  // Takes the record last peeked at.
  void Release() { tail_ += record_size_; }
  // Frees released records for the producer. True if it wants its space eventfd rung.
  bool Publish();

  // Asks for the doorbell. True if there are records already, or if the producer has released the
  // ring and may not ring again.
  bool Arm();
  bool HasData() const { return Head() != tail_; }
  // Ignores what the producer publishes from now on.
  void Close() { last_head_ = Head(); }
  // True if the producer has released the ring.
  bool Released() const { return index_->released.load(std::memory_order_seq_cst) != 0; }
  // Leaves the ring. True if the producer left first; then the consumer counts the records that
  // were not taken, else the producer counts them.
  bool Leave() {
    return (index_->left.fetch_or(RingIndex::kConsumer, std::memory_order_seq_cst) &
            RingIndex::kProducer) != 0;
  }
  // Takes all published records, also those after Close, and returns how many there were.
  uint64_t Discard() { return DiscardUpTo(index_->head.load(std::memory_order_seq_cst)); }
  uint64_t DiscardUpTo(uint64_t head);

 private:
  bool Refill();
  uint64_t Head() const {
    return last_head_.has_value() ? *last_head_ : index_->head.load(std::memory_order_seq_cst);
  }

  std::shared_ptr<RingMemory> memory_;
  const uint8_t* const data_;
  RingIndex* const index_;
  const uint64_t capacity_;
  uint64_t tail_ = 0;
  uint64_t published_ = 0;
  uint64_t cached_head_ = 0;
  absl::optional<uint64_t> last_head_;
  size_t record_size_ = 0;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_RING_H_
