// BufferPool: the registered memory that every frame of a worker lives in, and who owns which buffer when.
//
// Layout of a buffer (stride bytes, cache-line aligned):
//
//     0          20                60         64                                     stride
//     | headroom | GRH (40 bytes)  | EoIB (4) | Ethernet frame from its destination MAC ...
//
// A receive is posted at offset 20, so a datagram's frame starts at 64; a port reads its frames to 64 as well. Whatever comes
// before a frame (a VLAN tag, which moves the MACs down by 4, then the EoIB header) finds room in front of it, and no frame is
// ever moved.
//
// Ownership. A buffer is in exactly one state, and the function that moves it is named here:
//
//     free      --Allocate-->              batch      (the worker fills or forwards it)
//     free      --UdEndpoint::Refill-->    posted     (the HCA may write to it)
//     posted    --UdEndpoint::Receive-->   batch
//     batch     --UdEndpoint::Send-->      in flight  (the HCA reads from it; nobody writes)
//     in flight --UdEndpoint::ReapSends--> free
//     batch     --Forwarder's held queue-> held       (waits for a path, then goes back to batch)
//     batch     --Free-->                  free
//     held      --Free-->                  free       (given up: the forwarder is destroyed)
//
// A destroyed endpoint's posted and in-flight buffers go to free as well. Builds with EOIB_CHECKS check that a move is one of
// these; other builds only count. The counts of all states add up to size(): a test.
//
// One thread (the worker that owns the pool).
#ifndef EOIB_VSWITCH_FABRIC_BUFFER_POOL_H_
#define EOIB_VSWITCH_FABRIC_BUFFER_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "fdb/address.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/wire/ib_headers.h"

namespace eoib {

// Index of a buffer in its pool.
class BufferId : public Number<struct BufferIdTag, uint32_t> {
 public:
  using Number::Number;
  static constexpr BufferId None() { return BufferId(0xffffffff); }
  constexpr bool IsNone() const { return *this == None(); }
};

class BufferPool {
 public:
  static constexpr size_t kGrhOffset = 20;
  static constexpr size_t kFrameOffset = 64;

  enum class State : uint8_t { kFree, kBatch, kPosted, kInFlight, kHeld, kCount };

  // `buffers` buffers for frames of up to `frame_size` bytes (and one to spare, so that a larger one is noticed), registered
  // on `pd` for local writes. `hca` and `pd` outlive the pool.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Create(Hca* hca, ibv_pd* pd, size_t buffers, size_t frame_size);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A free buffer, in state kBatch; None if there is none.
  BufferId Allocate() { return Take(State::kBatch); }
  void Free(BufferId id) { Move(id, State::kFree); }
  // Named moves for the endpoint and the forwarder.
  BufferId Take(State to);
  void Move(BufferId id, State to);

  uint8_t* Grh(BufferId id) const { return base_ + id.value() * stride_ + kGrhOffset; }
  uint8_t* Frame(BufferId id) const { return base_ + id.value() * stride_ + kFrameOffset; }
  size_t frame_capacity() const { return stride_ - kFrameOffset; }  // more than frame_size
  size_t frame_size() const { return frame_size_; }
  uint32_t lkey() const;

  size_t size() const { return state_.size(); }
  size_t count(State state) const { return counts_[static_cast<size_t>(state)]; }

 private:
  BufferPool() = default;

  Hca* hca_ = nullptr;
  ibv_mr* mr_ = nullptr;
  uint8_t* base_ = nullptr;
  size_t stride_ = 0;
  size_t frame_size_ = 0;
  size_t mapped_ = 0;
  std::vector<uint32_t> free_;
  std::vector<State> state_;
  std::array<size_t, static_cast<size_t>(State::kCount)> counts_{};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_BUFFER_POOL_H_
