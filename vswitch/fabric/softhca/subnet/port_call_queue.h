// PortCallQueue: calls to ports, in order and one at a time. A sink may take its own locks, because
// no lock is held during a call.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_CALL_QUEUE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_CALL_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

struct SubnetPort;

// One registration of one process. The Subnet's mutex guards it, except `sink`.
struct PortSession {
  SubnetPort* port = nullptr;
  PortUse use = PortUse::kOwn;
  uint64_t process = 0;  // unique; not 0
  bool ended = false;
  std::shared_ptr<UniqueFd> doorbell;
  PortSink* sink = nullptr;  // the queue's; null after Stop
};

// Any thread may call all members.
class PortCallQueue {
 public:
  using Call = absl::AnyInvocable<void(PortSink*)>;

  // Queues a call; none without a session.
  void Push(const std::shared_ptr<PortSession>& session, Call call);
  // Makes the queued calls. If another thread is doing so already, that thread makes them, also
  // those queued meanwhile.
  void Deliver();
  // Drops the calls to a session and returns when none is under way.
  void Stop(const std::shared_ptr<PortSession>& session);

 private:
  struct Queued {
    std::shared_ptr<PortSession> session;
    Call call;
  };

  // Takes the next call. Returns false, and ends the delivery, if there is none.
  bool Take(Queued* queued, PortSink** sink);

  absl::Mutex mutex_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<PortSession> being_called_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_PORT_CALL_QUEUE_H_
