// RingMaintainer: makes the rings that a port's sending half asks for. Its background thread does
// what no other thread may wait for: it flushes parked messages, notices dead peers, closes idle
// rings and wakes receivers for delayed datagrams.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_RING_MAINTAINER_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_RING_MAINTAINER_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/datagram_path.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// `mutex` is the port's. It is never held across a call to the link or another system call.
class RingMaintainer {
 public:
  // The objects outlive this one. `idle_close`: OutboundOptions'.
  RingMaintainer(absl::Mutex* mutex, DatagramPath* path, SubnetLink* link, const PortEventFds* fds,
                 const Clock* clock, absl::Duration idle_close)
      : mutex_(mutex),
        path_(path),
        link_(link),
        fds_(fds),
        clock_(clock),
        idle_close_(idle_close) {}
  // Ends the thread.
  ~RingMaintainer() { Stop(); }

  void Start() { background_ = std::thread(&RingMaintainer::Background, this); }
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Carries out Outbound's LinkRequests. Any thread.
  void RunRequests() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct WatchedRing {
    int fd;
    uint64_t ring;
    bool inbound;
  };
  // The events and the time for which the background thread waits.
  struct Wait {
    std::vector<WatchedRing> rings;
    bool space = false;  // room in rings
    absl::Duration time;
  };

  // Making rings.
  void OpenRingTo(Lid destination) ABSL_LOCKS_EXCLUDED(mutex_);
  void OpenLoopback(Lid destination) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status MakeRing(uint64_t capacity, RingEnd* end, std::shared_ptr<RingMemory>* memory,
                        UniqueFd* liveness);
  // Returns the sender to `destination` if it still wants a ring, else null.
  RingSender* FindRequester(Lid destination) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The background thread.
  void Background();
  // Returns false if the port ends.
  bool Maintain(Wait* wait) ABSL_LOCKS_EXCLUDED(mutex_);
  void CloseReleasedRings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration SleepTime(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchPeers(std::vector<WatchedRing>* watched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sleep(const Wait& wait) ABSL_LOCKS_EXCLUDED(mutex_);
  void PeerDied(const WatchedRing& watched) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex* const mutex_;
  DatagramPath* const path_ ABSL_PT_GUARDED_BY(mutex_);
  SubnetLink* const link_;
  const PortEventFds* const fds_;
  const Clock* const clock_;
  const absl::Duration idle_close_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  std::thread background_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_RING_MAINTAINER_H_
