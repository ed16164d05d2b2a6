// What a hostile producer can make of a ring: any head, any bytes. The consumer must stay inside, come to an end and never go
// back.
//
// Input: 8 bytes of head in host order, then the ring's bytes from its beginning (the rest is zero).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "fdb/check.h"
#include "vswitch/fabric/softhca/ring.h"

using eoib::softhca::kMaxRecordPayload;
using eoib::softhca::RecordHeader;
using eoib::softhca::RingConsumer;
using eoib::softhca::RingMemory;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kCapacity = RingMemory::kMinCapacity;
  uint64_t head = 0;
  if (size < sizeof(head)) return 0;
  std::memcpy(&head, data, sizeof(head));
  const std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(kCapacity);
  std::memset(memory->data(), 0, kCapacity);
  std::memcpy(memory->data(), data + sizeof(head), std::min<size_t>(size - sizeof(head), kCapacity));
  memory->index()->head = head;

  RingConsumer consumer(memory);
  RecordHeader header;
  const uint8_t* payload;
  uint64_t records = 0, tail = 0;
  while (consumer.Peek(&header, &payload) == RingConsumer::Next::kRecord) {
    EOIB_CHECK(header.length <= kMaxRecordPayload);
    EOIB_CHECK(payload >= memory->data() && payload + header.length <= memory->data() + kCapacity);
    consumer.Release();
    consumer.Publish();
    const uint64_t now = memory->index()->tail;
    EOIB_CHECK(now > tail && now <= head);
    tail = now;
    EOIB_CHECK(++records <= kCapacity / eoib::softhca::kRecordAlignment);
  }
  return 0;
}
