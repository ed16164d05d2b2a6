// What a worker and control tell each other about one VES.
//
// The worker decides everything that a frame needs at once (learning, flooding) and punts what takes time: resolving a peer's
// path, and knowing of a move. Control answers through the directory (a published address handle) and asks the worker to retry
// what waits for it.
#ifndef EOIB_VSWITCH_CONTROL_QUEUES_H_
#define EOIB_VSWITCH_CONTROL_QUEUES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/address.h"
#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/forwarder_counters.h"
#include "vswitch/spsc_queue.h"

namespace eoib {

// Worker to control.
struct Punt {
  enum class Kind : uint8_t {
    kNewPeer,      // `vport` was made for `peer`, seen for the first time: resolve it
    kReaddressed,  // the agent at `peer` came back with another QPN: verify its path
    kUnresolved,   // a frame waits for the path to `vport`
    kMoved,        // `key` is behind `vport` now, was behind `previous`
    kFrozen,       // `key` moves too often, the last time from `previous` to `vport`, and is frozen at its home
    kFlapping,     // `key` moves too often, the last time from `previous` to `vport`, and is not frozen
  };
  Kind kind = Kind::kNewPeer;
  VPortId vport;
  VPortId previous;
  PeerAddress peer;
  Lid slid;  // kNewPeer, kReaddressed: the way back, from the work completion
  Sl sl;
  FdbKey key;
};
using PuntQueue = SpscQueue<Punt, 1024>;

// The worker's side. A punt that finds the queue full is counted and lost: false. Who has something to say that does not come
// up again by itself says it again.
inline bool SendPunt(const Punt& punt, PuntQueue* punts, ForwarderCounters* counters) {
  if (punts->Push(punt)) {
    punts->Notify();
    return true;
  }
  counters->punts_lost.Add();
  return false;
}

// Control to worker: a frame to forward as if local port `port` had sent it.
struct Injected {
  static constexpr size_t kMaxFrame = 128;

  uint32_t port = 0;
  uint32_t length = 0;
  std::array<uint8_t, kMaxFrame> frame{};
};

// What control asks a worker for. A frame that finds the queue full is counted, and the worker gives it its disposition. The
// request to retry held frames is a flag, which finds room always.
class InjectQueue {
 public:
  // Control. Notify once after a burst.
  void Push(const Injected& frame) {
    if (!frames_.Push(frame)) refused_.fetch_add(1, std::memory_order_relaxed);
  }
  // A path was published: send what waits for it.
  void RetryHeld() { retry_held_.store(true, std::memory_order_release); }
  void Notify() { frames_.Notify(); }

  // The worker.
  bool Pop(Injected* frame) { return frames_.Pop(frame); }
  // Whether RetryHeld was called, how many frames were refused, since the last call.
  bool TakeRetryHeld() { return retry_held_.exchange(false, std::memory_order_acquire); }
  uint64_t TakeRefused() { return refused_.exchange(0, std::memory_order_relaxed); }
  int fd() const { return frames_.fd(); }
  void Clear() { frames_.Clear(); }

 private:
  SpscQueue<Injected, 256> frames_;
  std::atomic<bool> retry_held_{false};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_CONTROL_QUEUES_H_
