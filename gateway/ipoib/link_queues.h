// What the two halves of an IPoIB interface tell each other: its Channel, on the thread of the data path, and its Link, on the
// control thread. In a program that has one thread for both they talk in the same way.
//
// Neither side waits. A queue that is full keeps what is behind it at its producer (Outbox), which tries again: what is said
// here must not be lost. A peer is wished for again when it is heard or sent to again, so that wish may be, and there is no end
// to the peers that somebody invents.
#ifndef EOIB_GATEWAY_IPOIB_LINK_QUEUES_H_
#define EOIB_GATEWAY_IPOIB_LINK_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/types/optional.h"
#include "fdb/address.h"
#include "gateway/ipoib/interface.h"
#include "vswitch/control_queues.h"
#include "vswitch/spsc_queue.h"

namespace eoib::ipoib {

// Channel to Link.
struct Wish {
  enum class Kind : uint8_t {
    kPeer,      // `punt`: a peer is new, is elsewhere, or packets wait for the path to it
    kListen,    // to be a full member of `mgid`
    kUnlisten,  // not any more
    kSendTo,    // a packet for `mgid` waits: to be a member that may send, if it exists
    kForget,    // nothing was sent to `mgid` for long
  };
  Kind kind = Kind::kPeer;
  Punt punt;
  Mgid mgid;
};
using Wishes = SpscQueue<Wish, 1024>;

// Link to Channel.
struct News {
  enum class Kind : uint8_t {
    kState,   // `state`, and `ah` of the broadcast group; all other groups are void
    kPaths,   // paths were published in the directory
    kLids,    // LIDs may be other ports' than they were
    kGroup,   // `mgid` can be sent to through `ah`; or, without one, does not exist (which may change)
    kNoRoom,  // for `mgid`, to send to it: whoever has something for it asks again
  };
  Kind kind = Kind::kState;
  absl::optional<LinkState> state;
  Mgid mgid;
  AhIndex ah = AhIndex::None();
};
using NewsQueue = SpscQueue<News, 256>;

// The producer's end of a queue.
template <typename Item, typename Queue>
class Outbox {
 public:
  explicit Outbox(Queue* queue) : queue_(queue) {}

  void Push(const Item& item) {
    if (!waiting_.empty() || !queue_->Push(item)) waiting_.push_back(item);
    queue_->Notify();
  }
  // False if there is no room for it, and then it is lost.
  bool Offer(const Item& item) {
    if (!waiting_.empty() || !queue_->Push(item)) return false;
    queue_->Notify();
    return true;
  }
  // Call it now and then.
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

#endif  // EOIB_GATEWAY_IPOIB_LINK_QUEUES_H_
