// BufferPool: the registered memory of a worker's frames. It records the state of each buffer, and
// the endpoint that holds it.
//
// Layout of a buffer (stride bytes, cache-line aligned):
//
//     0          20                60         64                                     stride
//     | headroom | GRH (40 bytes)  | EoIB (4) | Ethernet frame from its destination MAC ...
//
// A receive is posted at offset 20, so a received frame starts at 64; ports read their frames to
// offset 64 as well. The headroom takes what is put in front of a frame: a VLAN tag, which moves
// the MACs down by 4, then the EoIB header and the extension of a segment. Frames never move.
//
// A frame that is larger than a datagram is a chain of buffers. The first one is its head, whose
// bytes a Frame describes; each other buffer records its own bytes, and each but the last names the
// next one. Buffers that are free or posted are in no chain.
//
// A buffer is in exactly one state. These functions move it:
//
//     free      --Allocate-->              batch      (the worker fills or forwards it)
//     free      --UdEndpoint::Refill-->    posted     (the HCA may write to it)
//     posted    --UdEndpoint::Receive-->   batch
//     batch     --UdEndpoint::Send-->      in flight  (the HCA reads from it; do not write)
//     in flight --UdEndpoint::ReapSends--> free
//     batch     --Forwarder--------------> held       (waits for a path or for the frame's other
//     segments, then goes back) batch     --Free-->                  free held      --Free--> free
//     (given up: the forwarder is destroyed)
//
// A destroyed endpoint moves the posted and in-flight buffers that it holds to free; other
// endpoints may use the same pool. Builds with EOIB_CHECKS check every move; other builds only
// count the buffers in each state. The counts add up to size().
//
// Thread: the worker that owns the pool. Any thread may read size() and count().
#ifndef EOIB_VSWITCH_FABRIC_BUFFER_POOL_H_
#define EOIB_VSWITCH_FABRIC_BUFFER_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "vswitch/base/address.h"
#include "vswitch/base/check.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/wire/ib/ib_headers.h"

namespace eoib {

// Index of a buffer in its pool.
class BufferId : public Number<struct BufferIdTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr BufferId None() { return BufferId(0xffffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

class UdEndpoint;

class BufferPool {
 public:
  static constexpr size_t kGrhOffset = 20;
  static constexpr size_t kFrameOffset = 64;

  enum class State : uint8_t { kFree, kBatch, kPosted, kInFlight, kHeld, kCount };

  // Registers memory for `buffers` frames of up to `frame_size` bytes on `pd`, for local writes.
  // Each buffer has at least one byte more, so that a longer datagram is noticed. `hca` and `pd`
  // outlive the pool.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(Hca* hca, ibv_pd* pd, size_t buffers,
                                                            size_t frame_size);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a free buffer in state kBatch, or None.
  BufferId Allocate() { return Take(State::kBatch); }
  // Frees the buffer and those behind it in its chain.
  void Free(BufferId id) { MoveChain(id, State::kFree); }
  // State moves for the endpoint and the forwarder. `holder` is the endpoint that posts or sends
  // the buffer; it holds the buffer in these two states.
  BufferId Take(State to, const UdEndpoint* holder = nullptr);
  void Move(BufferId id, State to, const UdEndpoint* holder = nullptr);
  // Moves the buffer and those behind it in its chain.
  void MoveChain(BufferId head, State to);
  State StateOf(BufferId id) const { return state_[id.value()]; }
  bool IsHeldBy(const UdEndpoint* endpoint, BufferId id) const;

  // The chain. Append puts `next`, whose bytes are `length` at `data`, behind `last`, the last one
  // of a chain or a single buffer. Next is None behind the last one. Detach makes `id` a single
  // buffer and returns what was next.
  void Append(BufferId last, BufferId next, const uint8_t* data, uint32_t length);
  BufferId Next(BufferId id) const { return BufferId(links_[id.value()].next); }
  BufferId Detach(BufferId id) {
    return BufferId(std::exchange(links_[id.value()].next, BufferId::None().value()));
  }
  // The bytes of a buffer in a chain, but not of its head.
  absl::Span<uint8_t> Bytes(BufferId id) const {
    const Link& link = links_[id.value()];
    return absl::MakeSpan(base_ + id.value() * stride_ + link.offset, link.length);
  }

  uint8_t* Grh(BufferId id) const { return base_ + id.value() * stride_ + kGrhOffset; }
  uint8_t* Frame(BufferId id) const { return base_ + id.value() * stride_ + kFrameOffset; }
  size_t frame_capacity() const { return stride_ - kFrameOffset; }  // more than frame_size
  size_t frame_size() const { return frame_size_; }
  uint32_t lkey() const;

  size_t size() const { return state_.size(); }
  size_t count(State state) const {
    return counts_[static_cast<size_t>(state)].load(std::memory_order_relaxed);
  }

 private:
  BufferPool() = default;

  // Whether the state machine above allows this move.
  static bool MayMove(State from, State to);

  // One writer, so a load and a store are enough.
  void Count(State state, ptrdiff_t change) {
    std::atomic<size_t>& count = counts_[static_cast<size_t>(state)];
    count.store(count.load(std::memory_order_relaxed) + static_cast<size_t>(change),
                std::memory_order_relaxed);
  }

  struct Link {
    uint32_t next = BufferId::None().value();
    uint16_t offset = 0;  // of the bytes in the buffer
    uint16_t length = 0;
  };

  Hca* hca_ = nullptr;
  ibv_mr* mr_ = nullptr;
  uint8_t* base_ = nullptr;
  size_t stride_ = 0;
  size_t frame_size_ = 0;
  size_t mapped_ = 0;
  std::vector<uint32_t> free_;
  std::vector<State> state_;               // by BufferId
  std::vector<Link> links_;                // by BufferId
  std::vector<const UdEndpoint*> holder_;  // by BufferId; meaningful if posted or in flight
  std::array<std::atomic<size_t>, static_cast<size_t>(State::kCount)> counts_{};
};

inline BufferId BufferPool::Take(State to, const UdEndpoint* holder) {
  if (ABSL_PREDICT_FALSE(free_.empty())) return BufferId::None();
  const BufferId id(free_.back());  // freed last, so most likely in the cache
  free_.pop_back();
  EOIB_DCHECK(MayMove(State::kFree, to));
  EOIB_DCHECK(state_[id.value()] == State::kFree);
  state_[id.value()] = to;
  if (holder != nullptr) holder_[id.value()] = holder;
  Count(State::kFree, -1);
  Count(to, 1);
  return id;
}

inline void BufferPool::Move(BufferId id, State to, const UdEndpoint* holder) {
  EOIB_DCHECK(id.value() < state_.size());
  const State from = state_[id.value()];
  EOIB_DCHECK(MayMove(from, to));
  state_[id.value()] = to;
  if (holder != nullptr) holder_[id.value()] = holder;
  Count(from, -1);
  Count(to, 1);
  if (to != State::kFree) return;
  links_[id.value()].next = BufferId::None().value();
  free_.push_back(id.value());
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_BUFFER_POOL_H_
