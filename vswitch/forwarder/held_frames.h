// HeldFrames: a queue of frames for known MACs whose peer has no address handle yet.
//
// Flooding them would be wrong (a reply never floods), and dropping the first reply would cost a
// retransmission. So they wait, as packets wait for ARP, until control publishes a path after some
// tens of microseconds. The queue is bounded, in frames and buffers in total and in frames for each
// vPort, so that an unreachable peer cannot take the buffers of others.
#ifndef EOIB_VSWITCH_FORWARDER_HELD_FRAMES_H_
#define EOIB_VSWITCH_FORWARDER_HELD_FRAMES_H_

#include <array>
#include <cstddef>

#include "absl/time/time.h"
#include "fdb/vport.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

// For the worker that owns the forwarder.
class HeldFrames {
 public:
  static constexpr size_t kCapacity = 128;
  static constexpr size_t kPerVPort = 16;
  static constexpr size_t kMaxBuffers = 256;

  struct Held {
    VPortId vport;
    // Of the first buffer, without handle and QPN; request.train buffers form a chain.
    SendRequest request;
    absl::Time deadline;
  };

  // False if there is no room for the vPort. On true the caller moves the buffers to state kHeld;
  // on false it frees them.
  bool Add(const Held& held);
  // True if a frame for `vport` waits.
  bool Has(VPortId vport) const { return CountOf(vport) != 0; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  // Calls `take` on every held frame, oldest first, and removes those for which it returns true.
  template <typename Take>
  void TakeIf(Take take) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      const size_t buffers = held_[i].request.train;
      if (take(held_[i])) {
        buffers_ -= buffers;
      } else {
        held_[kept++] = held_[i];
      }
    }
    count_ = kept;
  }

 private:
  size_t CountOf(VPortId vport) const;

  std::array<Held, kCapacity> held_;
  size_t count_ = 0;
  size_t buffers_ = 0;
};

inline size_t HeldFrames::CountOf(VPortId vport) const {
  size_t count = 0;
  for (size_t i = 0; i < count_; ++i) count += held_[i].vport == vport;
  return count;
}

inline bool HeldFrames::Add(const Held& held) {
  if (count_ == kCapacity || CountOf(held.vport) == kPerVPort ||
      buffers_ + held.request.train > kMaxBuffers)
    return false;
  buffers_ += held.request.train;
  held_[count_++] = held;
  return true;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_HELD_FRAMES_H_
