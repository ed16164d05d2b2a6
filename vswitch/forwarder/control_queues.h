// The queues between a worker and control, for one VES: punts and received messages (worker to
// control), injected frames and messages (control to worker).
//
// The worker does at once what a frame needs (learning, flooding) and punts what takes time:
// resolving a peer's path, reporting a move. Control answers through the directory (a published
// address handle) and asks the worker to retry held frames. Messages are those of the vPort
// protocol, which only control understands.
#ifndef EOIB_VSWITCH_FORWARDER_CONTROL_QUEUES_H_
#define EOIB_VSWITCH_FORWARDER_CONTROL_QUEUES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fdb/fdb_key.h"
#include "fdb/vport.h"
#include "vswitch/base/address.h"
#include "vswitch/base/spsc_queue.h"
#include "vswitch/forwarder/forwarder_counters.h"

namespace eoib {

// Worker to control.
struct Punt {
  enum class Kind : uint8_t {
    kNewPeer,      // `vport` was made for `peer`, seen for the first time; resolve its path
    kReaddressed,  // `peer` was heard from another LID; verify its path
    kUnresolved,   // a frame waits for the path to `vport`
    kMoved,        // `key` moved to `vport` from `previous`
    // `key` moves too often, last from `previous` to `vport`, and is frozen at its home.
    kFrozen,
    kFlapping,      // `key` moves too often, last from `previous` to `vport`, but is not frozen
    kLocalLearned,  // `key` was learned at our `vport`
    // `key`, announced by another agent, whose vPort is `previous`, was heard at our `vport`.
    kLocalHeard,
    // `key`, announced by an agent or claimed by us at `previous`, was heard from the peer `vport`.
    kContested,
    kNotBehind,  // `peer` sent us unicast for `key`, which is not behind us
    kPortDown,   // our `vport` is down, and the MACs that were learned there are flushed
    kCount,
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

// For the worker. If the queue is full, counts the punt as lost and returns false. A caller whose
// punt does not recur by itself must repeat it.
inline bool SendPunt(const Punt& punt, PuntQueue* punts, ForwarderCounters* counters) {
  if (punts->Push(punt)) {
    punts->Notify();
    return true;
  }
  counters->punts_lost.Add();
  return false;
}

// A message of the vPort protocol. Received: `peer` sent it. To send: it goes to `vport`, or, if
// that is None, to the flood group.
struct ControlMessage {
  static constexpr size_t kMaxSize = 2048;  // bytes of the payload; agents send at most 1,900

  VPortId vport = VPortId::None();
  PeerAddress peer;
  Lid slid;  // received: the source LID and the SL, from the work completion; 0 on RoCE
  Sl sl;
  bool by_group = false;  // it was received through the flood group
  uint32_t length = 0;
  std::array<uint8_t, kMaxSize> payload;
};
using ReceivedMessages = SpscQueue<ControlMessage, 256>;

// Control to worker: a frame to forward as if local port `port` had sent it.
struct Injected {
  static constexpr size_t kMaxFrame = 128;

  uint32_t port = 0;
  uint32_t length = 0;
  std::array<uint8_t, kMaxFrame> frame{};
};

// Requests from control to a worker. A frame that finds the queue full is counted here, and the
// worker later counts it as dropped. The request to retry held frames is a flag, so it cannot be
// lost.
class InjectQueue {
 public:
  // For control. Call Notify once after a burst.
  void Push(const Injected& frame) {
    if (!frames_.Push(frame)) refused_.fetch_add(1, std::memory_order_relaxed);
  }
  // False if the queue is full: the message is lost.
  bool Push(const ControlMessage& message) { return messages_.Push(message); }
  // The number of messages for which there is room.
  size_t MessageRoom() const { return messages_.Room(); }
  // A path was published: asks the worker to send the frames that wait for it.
  void RetryHeld() { retry_held_.store(true, std::memory_order_release); }
  void Notify() { frames_.Notify(); }

  // For the worker.
  bool Pop(Injected* frame) { return frames_.Pop(frame); }
  bool Pop(ControlMessage* message) { return messages_.Pop(message); }
  // Since the last call: whether RetryHeld was called; how many frames were refused.
  bool TakeRetryHeld() { return retry_held_.exchange(false, std::memory_order_acquire); }
  uint64_t TakeRefused() { return refused_.exchange(0, std::memory_order_relaxed); }
  int fd() const { return frames_.fd(); }
  void Clear() { frames_.Clear(); }

 private:
  SpscQueue<Injected, 256> frames_;
  SpscQueue<ControlMessage, 64> messages_;
  std::atomic<bool> retry_held_{false};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_CONTROL_QUEUES_H_
