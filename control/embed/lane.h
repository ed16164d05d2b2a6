// Lane: what the threads that run one forwarder share.
#ifndef EOIB_CONTROL_EMBED_LANE_H_
#define EOIB_CONTROL_EMBED_LANE_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {

// PolledPath owns it together with the ports.
struct Lane {
  absl::Mutex mutex;
  Forwarder* forwarder ABSL_GUARDED_BY(mutex) = nullptr;  // null: it was removed
  bool polled ABSL_GUARDED_BY(mutex) = false;             // since the control thread looked last
};

}  // namespace eoib

#endif  // EOIB_CONTROL_EMBED_LANE_H_
