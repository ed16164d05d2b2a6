// HeldFrames: frames to a MAC that is known but whose peer has no address handle yet.
//
// Flooding them would be wrong (a reply never floods) and dropping the first reply would cost a retransmission, so they wait,
// as ARP lets packets wait, until control has published a path: some tens of microseconds. Bounded for the forwarder and for
// each vPort, so that an unreachable peer cannot take the buffers of others.
#ifndef EOIB_VSWITCH_HELD_FRAMES_H_
#define EOIB_VSWITCH_HELD_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "fdb/vport.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib {

// The worker that owns the forwarder.
class HeldFrames {
 public:
  static constexpr size_t kCapacity = 128;
  static constexpr size_t kPerVPort = 16;

  struct Held {
    VPortId vport;
    SendRequest request;  // without handle and QPN
    absl::Time deadline;
  };

  // False if there is no room for `vport`. The caller has moved the buffer to state kHeld, or frees it.
  bool Add(const Held& held);
  // True if a frame for `vport` waits.
  bool Has(VPortId vport) const { return CountOf(vport) != 0; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  // Calls `take` on every held frame, oldest first; those for which it returns true are removed.
  template <typename Take>
  void TakeIf(Take take) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (!take(held_[i])) held_[kept++] = held_[i];
    }
    count_ = kept;
  }

 private:
  size_t CountOf(VPortId vport) const;

  std::array<Held, kCapacity> held_;
  size_t count_ = 0;
};

inline size_t HeldFrames::CountOf(VPortId vport) const {
  size_t count = 0;
  for (size_t i = 0; i < count_; ++i) count += held_[i].vport == vport;
  return count;
}

inline bool HeldFrames::Add(const Held& held) {
  if (count_ == kCapacity || CountOf(held.vport) == kPerVPort) return false;
  held_[count_++] = held;
  return true;
}

}  // namespace eoib

#endif  // EOIB_VSWITCH_HELD_FRAMES_H_
