// The messages between the two halves of an IPoIB interface: its Channel, on the data path's
// thread, and its Link, on the control thread. A program with one thread for both uses them in the
// same way.
//
// Neither side blocks. While a queue is full, its producer keeps messages in a QueueProducer and
// retries, because they must not be lost. A kPeer request may be lost (QueueProducer::Offer): the
// next packet from or to the peer repeats it, and invented peers must not fill the queue.
#ifndef EOIB_GATEWAY_LINK_LINK_QUEUES_H_
#define EOIB_GATEWAY_LINK_LINK_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/types/optional.h"
#include "gateway/link/interface.h"
#include "vswitch/base/address.h"
#include "vswitch/base/spsc_queue.h"
#include "vswitch/forwarder/control_queues.h"

namespace eoib::ipoib {

// Channel to Link.
struct LinkRequest {
  enum class Kind : uint8_t {
    kPeer,      // `punt`: a peer is new, has another LID, or packets wait for the path to it
    kListen,    // join `mgid` as a full member
    kUnlisten,  // end that membership
    kSendTo,    // a packet for `mgid` waits: join it to send, if it exists
    kForget,    // the channel has not sent to `mgid` for long
  };
  Kind kind = Kind::kPeer;
  Punt punt;
  Mgid mgid;
};
using LinkRequestQueue = SpscQueue<LinkRequest, 1024>;

// Link to Channel.
struct LinkEvent {
  enum class Kind : uint8_t {
    // The new `state`, and `ah` of the broadcast group; earlier events of other groups are void.
    kState,
    kPaths,  // the PathResolver has published paths in the directory
    kLids,   // LIDs may belong to other ports than before
    kGroup,  // send to `mgid` through `ah`; without `ah` the group does not exist now
    // No room for a membership of `mgid`: drop the packets for it; the next one asks again.
    kNoRoom,
  };
  Kind kind = Kind::kState;
  absl::optional<LinkState> state;
  Mgid mgid;
  AhIndex ah = AhIndex::None();
};
using LinkEventQueue = SpscQueue<LinkEvent, 256>;

// The producer's end of a queue. Only the producer's thread uses it.
template <typename Item, typename Queue>
class QueueProducer {
 public:
  explicit QueueProducer(Queue* queue) : queue_(queue) {}

  void Push(const Item& item) {
    if (!waiting_.empty() || !queue_->Push(item)) waiting_.push_back(item);
    queue_->Notify();
  }
  // False, and the item is lost, if the queue is full.
  bool Offer(const Item& item) {
    if (!waiting_.empty() || !queue_->Push(item)) return false;
    queue_->Notify();
    return true;
  }
  // Moves waiting items into the queue. Call it now and then.
  void Retry() {
    if (waiting_.empty()) return;
    while (!waiting_.empty() && queue_->Push(waiting_.front())) waiting_.pop_front();
    queue_->Notify();
  }
  size_t waiting() const { return waiting_.size(); }

 private:
  Queue* const queue_;
  std::deque<Item> waiting_;
};

}  // namespace eoib::ipoib

#endif  // EOIB_GATEWAY_LINK_LINK_QUEUES_H_
