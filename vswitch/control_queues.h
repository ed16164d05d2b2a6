// The two queues between a worker and control, for one VES: Punt (worker to control) and Injected (control to worker).
//
// The worker does at once what a frame needs (learning, flooding) and punts what takes time: resolving a peer's path,
// reporting a move. Control answers through the directory (a published address handle) and asks the worker to retry held
// frames.
#ifndef EOIB_VSWITCH_CONTROL_QUEUES_H_
#define EOIB_VSWITCH_CONTROL_QUEUES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/base/address.h"
#include "vswitch/base/spsc_queue.h"
#include "vswitch/forwarder_counters.h"

namespace eoib {

// Worker to control.
struct Punt {
  enum class Kind : uint8_t {
    kNewPeer,      // `vport` was made for `peer`, seen for the first time; resolve its path
    kReaddressed,  // the agent at `peer` returned with another QPN or LID; verify its path
    kUnresolved,   // a frame waits for the path to `vport`
    kMoved,        // `key` moved to `vport` from `previous`
    kFrozen,       // `key` moves too often, last from `previous` to `vport`, and is frozen at its home
    kFlapping,     // `key` moves too often, last from `previous` to `vport`, but is not frozen
  };
  Kind kind = Kind::kNewPeer;
  VPortId vport;
  VPortId previous;
  PeerAddress peer;
  Lid slid;  // kNewPeer, kReaddressed: the return path, from the work completion
  Sl sl;
  FdbKey key;
};
using PuntQueue = SpscQueue<Punt, 1024>;

// For the worker. If the queue is full, counts the punt as lost and returns false. A caller whose punt does not recur by
// itself must repeat it.
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

// Requests from control to a worker. A frame that finds the queue full is counted here, and the worker later counts it as
// dropped. The request to retry held frames is a flag, so it cannot be lost.
class InjectQueue {
 public:
  // For control. Call Notify once after a burst.
  void Push(const Injected& frame) {
    if (!frames_.Push(frame)) refused_.fetch_add(1, std::memory_order_relaxed);
  }
  // A path was published: asks the worker to send the frames that wait for it.
  void RetryHeld() { retry_held_.store(true, std::memory_order_release); }
  void Notify() { frames_.Notify(); }

  // For the worker.
  bool Pop(Injected* frame) { return frames_.Pop(frame); }
  // Since the last call: whether RetryHeld was called; how many frames were refused.
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
