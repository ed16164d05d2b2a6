// Fuzzes a ring against a hostile peer, which writes any bytes that it can, between any two steps
// of ours. Consumer and producer must stay inside the ring, terminate, and never go back.
//
// Input: steps, each a byte for the kind and its arguments in host byte order; a step that is cut
// short is the last. There are two rings. We consume `in`, whose data and index the peer writes; we
// produce into `out`, whose index it writes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "vswitch/base/check.h"
#include "vswitch/fabric/softhca/ring.h"

namespace {

using eoib::softhca::kMaxRecordPayload;
using eoib::softhca::kRecordAlignment;
using eoib::softhca::RecordHeader;
using eoib::softhca::RecordSize;
using eoib::softhca::RingConsumer;
using eoib::softhca::RingIndex;
using eoib::softhca::RingMemory;
using eoib::softhca::RingProducer;

constexpr uint64_t kCapacity = RingMemory::kMinCapacity;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  template <typename T>
  bool Take(T* value) {
    return TakeBytes(value, sizeof(*value));
  }
  bool TakeBytes(void* to, size_t size) {
    if (size > size_) return false;
    std::memcpy(to, data_, size);
    data_ += size;
    size_ -= size;
    return true;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// On the heap, so that AddressSanitizer detects every access beyond it.
std::shared_ptr<RingMemory> MakeZeros() {
  std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(kCapacity);
  std::memset(memory->data(), 0, kCapacity);
  return memory;
}

class Game {
 public:
  // Returns false at the end of the input.
  bool Step(Input* input) {
    enum : uint8_t {
      kWriteInIndex,
      kWriteOutIndex,
      kWriteData,
      kConsume,
      kCloseIn,
      kArm,
      kProduce,
      kPublish,
      kSteps
    };
    uint8_t step;
    if (!input->Take(&step)) return false;
    switch (step % kSteps) {
      case kWriteInIndex:
        return WriteIndex(input, in_->index());
      case kWriteOutIndex:
        return WriteIndex(input, out_->index());
      case kWriteData:
        return WriteData(input);
      case kConsume:
        Consume();
        return true;
      case kCloseIn:
        consumer_.Close();
        return true;
      case kArm:
        consumer_.Arm();
        producer_.WantSpace();
        return true;
      case kProduce:
        return Produce(input);
      default:
        producer_.Publish();
        EOIB_CHECK(producer_.CountUntaken() <= kCapacity / kRecordAlignment);
        return true;
    }
  }

 private:
  static bool WriteIndex(Input* input, RingIndex* index) {
    uint8_t member;
    uint64_t value;
    if (!input->Take(&member) || !input->Take(&value)) return false;
    switch (member % 4) {
      case 0:
        index->head = value;
        break;
      case 1:
        index->tail = value;
        break;
      case 2:
        index->armed = static_cast<uint32_t>(value);
        break;
      default:
        index->space_wanted = static_cast<uint32_t>(value);
    }
    return true;
  }

  bool WriteData(Input* input) {
    uint16_t at, length;
    if (!input->Take(&at) || !input->Take(&length)) return false;
    at %= kCapacity;
    return input->TakeBytes(in_->data() + at, std::min<size_t>(length, kCapacity - at));
  }

  void Consume() {
    RecordHeader header;
    const uint8_t* payload;
    if (consumer_.Peek(&header, &payload) == RingConsumer::Next::kRecord) {
      EOIB_CHECK(header.length <= kMaxRecordPayload);
      EOIB_CHECK(payload >= in_->data() + sizeof(header) &&
                 payload + header.length <= in_->data() + kCapacity);
      EOIB_CHECK((payload - in_->data()) % kRecordAlignment == 0);
      // Every byte must be readable.
      EOIB_CHECK(std::count(payload, payload + header.length, 0) <= header.length);
      consumer_.Release();
    }
    const uint64_t before = tail_;
    in_->index()->tail = before;  // restore our position, to check the next one
    consumer_.Publish();
    tail_ = in_->index()->tail;
    // Forward, by at most a record and the skip before it.
    EOIB_CHECK(tail_ >= before && tail_ - before <= 2 * RecordSize(kMaxRecordPayload));
  }

  bool Produce(Input* input) {
    uint16_t length;
    if (!input->Take(&length)) return false;
    length %= kMaxRecordPayload + 1;
    uint8_t* record = producer_.Reserve(length);
    if (record == nullptr) return true;
    EOIB_CHECK(record >= out_->data() && record + RecordSize(length) <= out_->data() + kCapacity);
    std::memset(record, 0xff, RecordSize(length));
    producer_.Commit(length);
    return true;
  }

  const std::shared_ptr<RingMemory> in_ = MakeZeros();
  const std::shared_ptr<RingMemory> out_ = MakeZeros();
  RingConsumer consumer_{in_};
  RingProducer producer_{out_};
  uint64_t tail_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Game game;
  while (game.Step(&input)) {
  }
  return 0;
}
