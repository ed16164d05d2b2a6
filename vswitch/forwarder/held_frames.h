// Held: a queue of frames that wait until the path of their key is known, or until their deadline.
//
// The queue is bounded, in frames and buffers in total and in frames for each key, so that a key
// whose path never comes cannot take the buffers of others.
#ifndef EOIB_VSWITCH_FORWARDER_HELD_FRAMES_H_
#define EOIB_VSWITCH_FORWARDER_HELD_FRAMES_H_

#include <array>
#include <cstddef>

#include "absl/time/time.h"
#include "fdb/vport.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

// For the thread that owns the frames' buffers.
template <typename Key, size_t kMost, size_t kMostPerKey>
class Held {
 public:
  static constexpr size_t kCapacity = kMost;
  static constexpr size_t kPerKey = kMostPerKey;
  static constexpr size_t kMaxBuffers = 256;

  struct Frame {
    Key key;
    // Of the first buffer, without handle and QPN; request.train buffers form a chain.
    SendRequest request;
    absl::Time deadline;
  };

  // False if there is no room for the key. On true the caller moves the buffers to state kHeld; on
  // false it frees them.
  bool Add(const Frame& frame) {
    if (count_ == kCapacity || CountOf(frame.key) == kPerKey ||
        buffers_ + frame.request.train > kMaxBuffers)
      return false;
    buffers_ += frame.request.train;
    frames_[count_++] = frame;
    return true;
  }
  // True if a frame for `key` waits.
  bool Has(const Key& key) const { return CountOf(key) != 0; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  // Calls `take` on every frame, oldest first, and removes those for which it returns true. `take`
  // must not Add.
  template <typename Take>
  void TakeIf(Take take) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      const size_t buffers = frames_[i].request.train;
      if (take(frames_[i])) {
        buffers_ -= buffers;
      } else {
        frames_[kept++] = frames_[i];
      }
    }
    count_ = kept;
  }
  // Removes the frames whose deadline is not after `now`, and calls `drop` on the first buffer of
  // each.
  template <typename Drop>
  void DropExpired(absl::Time now, Drop drop) {
    TakeIf([&](const Frame& frame) {
      if (frame.deadline > now) return false;
      drop(frame.request.buffer);
      return true;
    });
  }

 private:
  size_t CountOf(const Key& key) const {
    size_t count = 0;
    for (size_t i = 0; i < count_; ++i) count += frames_[i].key == key;
    return count;
  }

  std::array<Frame, kCapacity> frames_;
  size_t count_ = 0;
  size_t buffers_ = 0;
};

// Frames for known MACs whose peer has no address handle yet. Flooding them would be wrong (a reply
// never floods), and dropping the first reply would cost a retransmission. So they wait, as packets
// wait for ARP, until control publishes a path after some tens of microseconds.
using HeldFrames = Held<VPortId, 128, 16>;

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_HELD_FRAMES_H_
