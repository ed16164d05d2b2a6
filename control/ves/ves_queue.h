// VesQueue: one queue of a VES on this agent: a forwarder, its queue pair and buffers, and its
// queues to control. The queues of a VES share its FDB and vPort directory only, so each may run on
// a thread of its own.
#ifndef EOIB_CONTROL_VES_VES_QUEUE_H_
#define EOIB_CONTROL_VES_VES_QUEUE_H_

#include <memory>
#include <utility>

#include "control/subnet/partition_queue_pair.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {

// Control thread, except that the forwarder and its end of the queues belong to the thread that
// runs it.
struct VesQueue {
  VesQueue(std::unique_ptr<BufferPool> buffers, const PartitionQueuePair::Options& options,
           const FabricPort::Resources& fabric, const Gid& gid)
      : pool(std::move(buffers)), queue_pair(options, fabric, pool.get(), gid) {}

  void RetryHeld() {
    injected.RetryHeld();
    injected.Notify();
  }
  PeerAddress address() const {
    return queue_pair.get() == nullptr ? PeerAddress()
                                       : PeerAddress{queue_pair.gid(), queue_pair.get()->qpn()};
  }

  const std::unique_ptr<BufferPool> pool;
  PuntQueue punts;
  ReceivedMessages messages;
  InjectQueue injected;
  PartitionQueuePair queue_pair;         // empty while the VES is down
  std::unique_ptr<Forwarder> forwarder;  // destroyed before the queue pair, on which it posts
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VES_QUEUE_H_
