// What a hostile other side can make of a ring: any head and any bytes for a consumer, any tail for a producer. Both must stay
// inside, come to an end and never go back.
//
// Input: 8 bytes of position in host order, then the ring's bytes from its beginning (the rest is zero).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "fdb/check.h"
#include "vswitch/fabric/softhca/ring.h"

namespace eoib::softhca {
namespace {

constexpr uint64_t kCapacity = RingMemory::kMinCapacity;

std::shared_ptr<RingMemory> MakeRing(absl::string_view bytes) {
  const std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(kCapacity);
  std::memset(memory->data(), 0, kCapacity);
  std::memcpy(memory->data(), bytes.data(), std::min<size_t>(bytes.size(), kCapacity));
  return memory;
}

// The payloads of the records that a consumer takes out of it.
std::vector<std::string> ConsumeAll(const std::shared_ptr<RingMemory>& memory) {
  const uint64_t head = memory->index()->head;
  RingConsumer consumer(memory);
  const bool waits = consumer.Arm();
  EOIB_CHECK(waits == (head != 0) && memory->index()->armed == 1);
  RecordHeader header;
  const uint8_t* payload;
  uint64_t tail = 0;
  std::vector<std::string> payloads;
  while (consumer.Peek(&header, &payload) == RingConsumer::Next::kRecord) {
    EOIB_CHECK(header.length <= kMaxRecordPayload);
    EOIB_CHECK(payload >= memory->data() && payload + header.length <= memory->data() + kCapacity);
    payloads.emplace_back(reinterpret_cast<const char*>(payload), header.length);
    consumer.Release();
    consumer.Publish();
    const uint64_t now = memory->index()->tail;
    EOIB_CHECK(now > tail && now <= head);
    tail = now;
    EOIB_CHECK(payloads.size() <= kCapacity / kRecordAlignment);
  }
  return payloads;
}

// Room for all that a ring ever holds, if it is empty.
bool Produce(RingProducer* producer, absl::string_view payload) {
  uint8_t* const at = producer->Reserve(payload.size());
  if (at == nullptr) return false;
  RecordHeader header;
  header.length = static_cast<uint32_t>(payload.size());
  std::memcpy(at, &header, sizeof(header));
  std::memcpy(at + sizeof(header), payload.data(), payload.size());
  producer->Commit(payload.size());
  return true;
}

// What one end puts in, the other takes out, though both go around the ring's end; each asks to be woken and is.
void CheckBothEnds(std::vector<std::string> payloads) {
  payloads.resize(payloads.size() + 5, std::string(kMaxRecordPayload, 'x'));  // more than the ring has room for
  const std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(kCapacity);
  RingProducer producer(memory);
  RingConsumer consumer(memory);
  RecordHeader header;
  const uint8_t* payload;
  for (const std::string& sent : payloads) {
    EOIB_CHECK(!consumer.Arm() && !consumer.HasData());
    producer.WantSpace();
    EOIB_CHECK(Produce(&producer, sent) && producer.Publish() && !producer.Publish() && !producer.Drained());
    EOIB_CHECK(consumer.Peek(&header, &payload) == RingConsumer::Next::kRecord);
    EOIB_CHECK(absl::string_view(reinterpret_cast<const char*>(payload), header.length) == sent);
    consumer.Release();
    EOIB_CHECK(consumer.Publish() && !consumer.Publish() && producer.Drained() && producer.tail() > 0);
    EOIB_CHECK(consumer.Peek(&header, &payload) == RingConsumer::Next::kEmpty);
  }
}

// A consumer's position that is nonsense is found out as soon as the ring seems full; any other leaves the ring bounded.
void CheckHostileConsumer(uint64_t tail) {
  const std::shared_ptr<RingMemory> memory = RingMemory::CreateLocal(kCapacity);
  RingProducer producer(memory);
  memory->index()->tail = tail;
  const std::string payload(kMaxRecordPayload, 'x');
  uint64_t produced = 0;
  while (Produce(&producer, payload)) {
    producer.Publish();
    EOIB_CHECK(++produced <= 2 * kCapacity / RecordSize(kMaxRecordPayload));
  }
  const uint64_t head = memory->index()->head;
  EOIB_CHECK(producer.corrupt() == (tail > head));
  EOIB_CHECK(producer.corrupt() || head - tail <= kCapacity);
}

}  // namespace
}  // namespace eoib::softhca

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eoib::softhca;  // NOLINT: the entry point has no namespace
  uint64_t position = 0;
  if (size < sizeof(position)) return 0;
  std::memcpy(&position, data, sizeof(position));
  const auto memory = MakeRing({reinterpret_cast<const char*>(data) + sizeof(position), size - sizeof(position)});
  memory->index()->head = position;
  CheckBothEnds(ConsumeAll(memory));
  CheckHostileConsumer(position);
  return 0;
}
