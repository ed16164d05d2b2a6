// A single-producer, single-consumer ring of datagrams.
//
// Records are whole: a 64-byte header, the payload, padding to the next 64 bytes. A record that would cross the end of the ring
// is preceded by a skip record to the end. The producer writes records, then publishes them with one store of `head`; the
// consumer reads them in place, then frees them with one store of `tail`. Each side keeps the other's position in a cache and
// looks again only when it seems to have run out.
//
// Sleeping. A consumer that is about to sleep sets `armed`, then looks once more for records; a producer that has published
// looks at `armed`, takes it and rings the doorbell. All four accesses are sequentially consistent, so one of the two sees the
// other. `space_wanted` works alike in the other direction.
//
// Trust. The two ends may belong to different processes, and the other one may write any bytes that it can at any time. A
// consumer reads every header once, believes no length or position before it has checked it, and reports a ring that breaks the
// rules as corrupt; so does a producer with the consumer's position. No member loops for longer than one record takes. (A
// producer that never stops publishing keeps its consumer busy for ever all the same: whoever calls Peek bounds its turn.)
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_RING_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_RING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/types/optional.h"
#include "vswitch/fabric/softhca/ring_memory.h"
#include "vswitch/wire/ib_headers.h"

namespace eoib::softhca {

inline constexpr size_t kRecordAlignment = 64;
inline constexpr size_t kMaxRecordPayload = 4096 + 64;  // a datagram of the largest MTU, and some

// In host byte order: both ends are on one host.
struct RecordHeader {
  enum Kind : uint8_t { kDatagram = 1, kSkip = 2 };
  enum Flags : uint8_t { kGlobal = 1, kSolicited = 2, kImmediate = 4 };

  uint32_t length = 0;  // of the payload; of a skip record 0
  uint8_t kind = kDatagram;
  uint8_t flags = 0;
  uint8_t sl = 0;
  uint8_t hop_limit = 0;
  uint32_t destination_qpn = 0;
  uint32_t source_qpn = 0;
  uint32_t qkey = 0;
  uint16_t pkey = 0;
  uint16_t dlid = 0;
  uint32_t immediate = 0;  // as in the work request: network order
  uint32_t flow_label = 0;
  uint32_t psn = 0;
  uint8_t traffic_class = 0;
  std::array<uint8_t, 3> reserved{};
  std::array<uint8_t, 16> dgid{};
  int64_t stamp = 0;  // of a queue inside one port: when the record was put there
};
static_assert(sizeof(RecordHeader) == kRecordAlignment && sizeof(RecordHeader) == sizeof(RingHeaderWords));
// No padding: nothing of the producer's memory goes into a ring by accident.
static_assert(std::has_unique_object_representations_v<RecordHeader>);

// Its packet's on a wire, in words of four bytes: all but the VCRC, as ports count their data (IBA 1.4 §16.1.3.5).
constexpr uint64_t WireWords(const RecordHeader& header) {
  const size_t absent = (header.flags & RecordHeader::kGlobal) != 0 ? 0 : kGrhSize;
  const size_t immediate = (header.flags & RecordHeader::kImmediate) != 0 ? sizeof(header.immediate) : 0;
  return (UdPacketSize(header.length) - kVcrcSize - absent + immediate) / 4;
}

constexpr size_t RecordSize(size_t payload) {
  return sizeof(RecordHeader) + (payload + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// One thread at a time.
class RingProducer {
 public:
  explicit RingProducer(std::shared_ptr<RingMemory> memory);

  // Room for a record with `payload` <= kMaxRecordPayload bytes: where its header goes, the payload right behind it. Null if
  // there is none now. Commit must follow.
  uint8_t* Reserve(size_t payload);
  void Commit(size_t payload) { head_ += RecordSize(payload); }
  // Makes committed records visible. True if the consumer wants its doorbell rung.
  bool Publish();

  // Asks for the space eventfd when the consumer has made room. The caller then tries Reserve once more before it waits.
  void WantSpace() {
    if (index_->space_wanted.load(std::memory_order_seq_cst) == 0) index_->space_wanted.store(1, std::memory_order_seq_cst);
  }
  // Nothing more will be published. True if the consumer wants its doorbell rung.
  bool Release();
  // The consumer has left: it takes nothing more.
  bool ConsumerHasLeft() const { return (index_->left.load(std::memory_order_seq_cst) & RingIndex::kConsumer) != 0; }
  // The producer leaves. True if the consumer had left before: what it has not taken is the producer's to count, else the
  // consumer's.
  bool Leave() { return (index_->left.fetch_or(RingIndex::kProducer, std::memory_order_seq_cst) & RingIndex::kConsumer) != 0; }
  // The records that the consumer has not taken. Exact once it has left, or died.
  uint64_t CountUntaken() const;
  // The consumer has taken all that was published.
  bool Drained() const { return index_->tail.load(std::memory_order_acquire) == published_; }
  // The consumer's position was nonsense: the ring is of no more use.
  bool corrupt() const { return corrupt_; }
  uint64_t tail() const { return index_->tail.load(std::memory_order_acquire); }
  uint64_t capacity() const { return memory_->capacity(); }

 private:
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
  // One that begins at a position of its own.
  RingConsumer(std::shared_ptr<RingMemory> memory, uint64_t tail);

  // The next record: a copy of its header, checked, and where its payload is. The other side may still scribble over the
  // payload.
  Next Peek(RecordHeader* header, const uint8_t** payload);
  // Takes the record last peeked at.
  void Release() { tail_ += record_size_; }
  // Frees released records for the producer. True if it wants its space eventfd rung.
  bool Publish();

  // Asks for the doorbell. True if there are records already, or the producer has released the ring: it may not ring for that.
  bool Arm();
  bool HasData() const { return Head() != tail_; }
  // The producer is done: what it publishes from now on is not looked at.
  void Close() { last_head_ = Head(); }
  // The producer has said so itself.
  bool Released() const { return index_->released.load(std::memory_order_seq_cst) != 0; }
  // The consumer leaves. True if the producer had left before: what is not taken is the consumer's to count, else the
  // producer's.
  bool Leave() { return (index_->left.fetch_or(RingIndex::kConsumer, std::memory_order_seq_cst) & RingIndex::kProducer) != 0; }
  // Takes all that was published, also behind Close, and returns how many records that were.
  uint64_t Discard() { return DiscardUpTo(index_->head.load(std::memory_order_seq_cst)); }
  uint64_t DiscardUpTo(uint64_t head);

 private:
  bool Refill();
  uint64_t Head() const { return last_head_.has_value() ? *last_head_ : index_->head.load(std::memory_order_seq_cst); }

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
