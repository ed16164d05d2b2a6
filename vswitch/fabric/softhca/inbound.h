// The receiving half of a port: the rings that other ports have made to it, and what the subnet says of their sources.
//
// No lock of its own: all members are called under the port's mutex.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_INBOUND_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_INBOUND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// A ring to this port.
struct InboundRing {
  uint64_t id = 0;
  SourceIdentity source;
  RingConsumer consumer;
  std::shared_ptr<RingMemory> memory;
  UniqueFd space;  // in one process the memory's own
  UniqueFd liveness;
  bool loopback = false;  // this port's own
  bool closing = false;   // dropped once what it held is taken
  bool corrupt = false;
  absl::Time unknown_since = absl::InfiniteFuture();  // the subnet was restarted, and knows nothing of this ring
  InboundRing* predecessor = nullptr;                 // an older ring of the same source, to be emptied first

  InboundRing(uint64_t id, SourceIdentity source, std::shared_ptr<RingMemory> memory)
      : id(id), source(std::move(source)), consumer(memory), memory(std::move(memory)) {}
  ~InboundRing() { consumer.Leave(); }
  void Publish();
  // The port is done with the ring. How many records it is to count as dropped, since their producer does not: it has ended.
  uint64_t Leave();
};

class Inbound {
 public:
  // More rings of one source than that are refused: two are enough while one replaces the other, and DrainRing recurses.
  static constexpr size_t kMaxRingsOfSource = 8;

  // False if the source has too many.
  bool Add(std::unique_ptr<InboundRing> ring);
  // Null if there is none. Loopback rings have numbers of their own.
  InboundRing* Find(uint64_t ring, bool loopback = false);
  // Takes what is finished (closed and empty, or corrupt) out of the set, for the caller to destroy without the mutex.
  std::vector<std::unique_ptr<InboundRing>> TakeFinished();
  bool has_finished() const { return finished_; }
  // All rings, for a port that ends.
  std::vector<std::unique_ptr<InboundRing>> TakeAll() { return std::exchange(rings_, {}); }
  // What the ring holds now is still delivered; what its producer writes from now on is not.
  void Close(InboundRing* ring);

  // Hands records to `deliver(ring, header, payload)` until `done()` or no ring has any. True if none has. A fast producer can
  // keep its ring from ever being empty, so `done` must come true after a bounded number of records. Calls `settle()` before it
  // frees records: whoever dies in between has counted what it took.
  template <typename Deliver, typename Done, typename Settle>
  bool Drain(Deliver deliver, Done done, Settle settle);
  // Asks for the doorbell on every ring. True if some have records already.
  bool Arm();

  size_t size() const { return rings_.size(); }
  template <typename Function>
  void ForEach(Function function) {
    for (auto& ring : rings_) function(ring.get());
  }

 private:
  // One ring's records in a row before the next ring's turn.
  static constexpr size_t kBurst = 64;

  template <typename Deliver, typename Done, typename Settle>
  bool DrainRing(InboundRing* ring, Deliver& deliver, Done& done, Settle& settle);

  std::vector<std::unique_ptr<InboundRing>> rings_;  // in the order in which they were offered
  size_t next_ = 0;                                  // whose turn it is
  bool finished_ = false;
};

// True if the ring may have more.
template <typename Deliver, typename Done, typename Settle>
bool Inbound::DrainRing(InboundRing* ring, Deliver& deliver, Done& done, Settle& settle) {
  // What the older ring holds was sent first. It was published before anything in this ring, so whoever sees this ring's
  // records sees those as well.
  if (ring->predecessor != nullptr) {
    if (!ring->consumer.HasData()) return false;
    if (DrainRing(ring->predecessor, deliver, done, settle)) return true;
  }
  if (ring->corrupt) return false;
  RecordHeader header;
  const uint8_t* payload;
  RingConsumer::Next next = RingConsumer::Next::kRecord;
  size_t taken = 0;
  while (taken < kBurst && !done()) {
    next = ring->consumer.Peek(&header, &payload);
    if (next != RingConsumer::Next::kRecord) break;
    deliver(ring, header, payload);
    ring->consumer.Release();
    ++taken;
  }
  if (taken != 0) {
    settle();
    ring->Publish();
  }
  if (next == RingConsumer::Next::kCorrupt) ring->corrupt = true;
  if (next == RingConsumer::Next::kRecord) return true;
  if (ring->corrupt || ring->closing) finished_ = true;
  if (!ring->consumer.Released()) return false;
  Close(ring);
  return !ring->corrupt && ring->consumer.HasData();  // what was published just before it was released
}

template <typename Deliver, typename Done, typename Settle>
bool Inbound::Drain(Deliver deliver, Done done, Settle settle) {
  const size_t count = rings_.size();
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < count; ++i) {
      if (done()) return false;
      if (next_ >= count) next_ = 0;
      more |= DrainRing(rings_[next_++].get(), deliver, done, settle);
    }
  }
  return true;
}

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_INBOUND_H_
