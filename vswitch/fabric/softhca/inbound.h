// Inbound: the receiving half of a port, the rings that other ports have made to it.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_INBOUND_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_INBOUND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/ring.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// A ring to this port, and what the subnet says about its source.
struct InboundRing {
  uint64_t id = 0;
  SourceIdentity source;
  RingConsumer consumer;
  std::shared_ptr<RingMemory> memory;
  UniqueFd space;  // invalid in one process: RingMemory::space
  UniqueFd liveness;
  bool loopback = false;  // from this port to itself
  bool closing = false;   // removed once it is empty
  bool corrupt = false;
  InboundRing* predecessor = nullptr;  // an older ring of the same source; empty it first

  InboundRing(uint64_t id, SourceIdentity source, std::shared_ptr<RingMemory> memory)
      : id(id), source(std::move(source)), consumer(memory), memory(std::move(memory)) {}
  ~InboundRing() { consumer.Leave(); }
  void Publish();
  // Leaves the ring. Returns how many records this port must count as dropped: those left in it, if
  // the producer has left or died and so does not count them.
  uint64_t Leave();
};

class Inbound {
 public:
  // Limit of rings from one source, because DrainRing recurses. Two are enough while one replaces
  // the other.
  static constexpr size_t kMaxRingsOfSource = 8;

  // Returns false if the source has too many rings.
  bool Add(std::unique_ptr<InboundRing> ring);
  // Null if there is none. Loopback rings have their own numbers.
  InboundRing* Find(uint64_t ring, bool loopback = false);
  // Removes the finished rings (closed and empty, or corrupt). The caller destroys them without the
  // mutex.
  std::vector<std::unique_ptr<InboundRing>> TakeFinished();
  bool has_finished() const { return finished_; }
  // Removes all rings, for a port that ends.
  std::vector<std::unique_ptr<InboundRing>> TakeAll() { return std::exchange(rings_, {}); }
  // Closes a ring: its present records are still delivered, later ones are not.
  void Close(InboundRing* ring);

  // Calls `deliver(ring, header, payload)` for records until `done()` or until all rings are empty.
  // Returns true if they are. A fast producer can keep its ring non-empty for ever, so `done` must
  // become true after a bounded number of records. `settle()` is called before records are freed,
  // so that a process that dies in between has counted what it took.
  template <typename Deliver, typename Done, typename Settle>
  bool Drain(Deliver deliver, Done done, Settle settle);
  // Asks every producer to ring the doorbell. True if some ring has records already.
  bool Arm();

  size_t size() const { return rings_.size(); }
  template <typename Function>
  void ForEach(Function function) {
    for (auto& ring : rings_) function(ring.get());
  }

 private:
  // Records of one ring in a row before the next ring's turn.
  static constexpr size_t kBurst = 64;

  template <typename Deliver, typename Done, typename Settle>
  bool DrainRing(InboundRing* ring, Deliver& deliver, Done& done, Settle& settle);

  std::vector<std::unique_ptr<InboundRing>> rings_;  // in the order in which they were offered
  size_t next_ = 0;                                  // the ring whose turn it is
  bool finished_ = false;
};

// Returns true if the ring may have more records.
template <typename Deliver, typename Done, typename Settle>
bool Inbound::DrainRing(InboundRing* ring, Deliver& deliver, Done& done, Settle& settle) {
  // Records in the older ring were sent first. They were published before anything in this ring, so
  // a consumer that sees this ring's records sees those as well.
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
  return !ring->corrupt && ring->consumer.HasData();  // published just before the release
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
