// DataPath: what runs forwarders. Workers does so on threads of its own; a program that embeds the
// switch runs them on its threads (control/embed/polled_path.h).
//
// The control thread calls everything. While the data path is stopped, as it is at first, no thread
// works with a forwarder.
#ifndef EOIB_VSWITCH_DATA_PATH_H_
#define EOIB_VSWITCH_DATA_PATH_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {

class DataPath {
 public:
  virtual ~DataPath() = default;

  // Call these while stopped. `forwarder` is that of a queue of its VES, by the number of the
  // queue. It may have no endpoint yet. It stays valid until it is removed, and its ports until
  // they are.
  virtual absl::Status Add(Forwarder* forwarder, size_t queue) = 0;
  virtual void Remove(const Forwarder* forwarder) = 0;
  // `port`, an index, was added to all forwarders of a VES, in the order of their queues, after
  // these were added; or is about to be removed from them.
  virtual absl::Status AddPort(absl::Span<Forwarder* const> queues, uint32_t port) = 0;
  virtual void RemovePort(absl::Span<Forwarder* const> queues, uint32_t port) = 0;
  // Call it while stopped, after an added forwarder changed its endpoint and the former one was
  // destroyed.
  virtual absl::Status WatchEndpointOf(const Forwarder* forwarder) = 0;
  // May be called again after Stop.
  virtual void Start() = 0;
  // Returns when the data path has stopped. It goes on until it finds nothing to do, for `backlog`
  // at most.
  virtual void Stop(absl::Duration backlog) = 0;
  // For a watchdog: whether there was a turn since the last call, which causes the next one. True
  // while stopped.
  virtual bool MakesProgress() = 0;

  // For a thread that ends a forwarder's run: sends the messages that control queued before Stop,
  // unless the fabric does not take them in time. Frames wait.
  static void SendLast(Forwarder* forwarder);
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_DATA_PATH_H_
