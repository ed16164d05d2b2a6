// DataPath: what runs forwarders. Worker does so on a thread of its own; a program that embeds the switch runs them on its
// threads (control/embed/polled_path.h).
//
// The control thread calls everything. While the data path is stopped, as it is at first, no thread works with a forwarder.
#ifndef EOIB_VSWITCH_DATA_PATH_H_
#define EOIB_VSWITCH_DATA_PATH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "vswitch/forwarder.h"

namespace eoib {

class DataPath {
 public:
  virtual ~DataPath() = default;

  // Call these while stopped. `forwarder` may have no endpoint yet. It stays valid until it is removed, and its ports until
  // they are.
  virtual absl::Status Add(Forwarder* forwarder) = 0;
  virtual void Remove(const Forwarder* forwarder) = 0;
  // `port`, an index, was added to `forwarder` after this was added; or is about to be removed from it.
  virtual absl::Status AddPort(Forwarder* forwarder, uint32_t port) = 0;
  virtual void RemovePort(const Forwarder* forwarder, uint32_t port) = 0;
  // Call it while stopped, after an added forwarder changed its endpoint and the former one was destroyed.
  virtual absl::Status WatchEndpointOf(const Forwarder* forwarder) = 0;
  // May be called again after Stop.
  virtual void Start() = 0;
  // Returns when the data path has stopped. It goes on until it finds nothing to do, for so long at most.
  virtual void Stop(absl::Duration backlog) = 0;
  // For a watchdog: whether there was a turn since the last call, which causes the next one. True while stopped.
  virtual bool MakesProgress() = 0;

 protected:
  // The messages that control queued before Stop still leave, unless the fabric does not take them in time. Frames wait.
  static void SendLast(Forwarder* forwarder);
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_DATA_PATH_H_
