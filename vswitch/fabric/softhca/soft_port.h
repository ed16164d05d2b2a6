// SoftPort: one port of the software HCA, as the verbs see it.
//
// Any thread may call all public members. One mutex guards the parts of the port. It is never held
// across a call to the SubnetLink or to another port, so ports that send to each other cannot
// deadlock. The last reference must not be dropped by the link's thread or the background thread.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/packet_capture.h"
#include "vswitch/fabric/softhca/async_events.h"
#include "vswitch/fabric/softhca/datagram_path.h"
#include "vswitch/fabric/softhca/outbound.h"
#include "vswitch/fabric/softhca/port_management.h"
#include "vswitch/fabric/softhca/ring_maintainer.h"
#include "vswitch/fabric/softhca/soft_port_counters.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {

class SoftPort {
 public:
  struct Options {
    OutboundOptions outbound;
    const Clock* clock = nullptr;  // null: CLOCK_MONOTONIC. Outlives the port.
    // Only queries the port's configuration, beside the process that owns the port.
    bool query_only = false;
    // How long Open waits for the first configuration.
    absl::Duration patience = absl::Seconds(10);
    // After this number of empty polls in a row, each further one yields the processor: the sender
    // may need it. 0: never.
    uint32_t polls_before_yield = 0;
    // How long the destructor waits for parked messages to leave: a program may end right after its
    // last completion.
    absl::Duration linger = absl::ZeroDuration();
  };

  // Registers port `name` and returns once it is configured. kAlreadyExists if another living
  // process owns it.
  static absl::StatusOr<std::shared_ptr<SoftPort>> Open(std::unique_ptr<SubnetLink> link,
                                                        const std::string& name,
                                                        const Options& options);
  // Unregisters the port. Its contexts must be closed and its objects destroyed.
  ~SoftPort();
  SoftPort(const SoftPort&) = delete;
  SoftPort& operator=(const SoftPort&) = delete;

  const std::string& name() const { return name_; }
  PortConfig config() const;
  SoftPortCounters counters() const;
  // The rings to and from other ports, and to this port itself.
  struct RingStatus {
    size_t outbound = 0;
    size_t inbound = 0;
    uint64_t largest_outbound = 0;  // bytes
    size_t parked = 0;              // messages
  };
  RingStatus rings() const;

  // The queue of received MADs; mad_fd is readable while it is not empty.
  absl::Status SendMad(const Mad& mad) { return link_->SendMad(mad); }
  absl::Status SubnetStatus() const { return link_->status(); }
  bool ReceiveMad(std::vector<uint8_t>* mad) { return management_.mads().Pop(mad); }
  int mad_fd() const { return management_.mads().fd(); }
  // The subnet's calls to this port.
  PortSink& sink() { return management_; }

  absl::Status StartCapture(const CaptureOptions& options);
  absl::StatusOr<CaptureReport> StopCapture();
  absl::optional<CaptureReport> Capture() const;

  // The verbs, with their return values. Objects belong to their maker.
  void AddContext(SoftContext* context);
  void RemoveContext(SoftContext* context);
  int GetAsyncEvent(SoftContext* context, ibv_async_event* event);

  // Returns `function(queue_pairs)`, for the verbs that need no other part of the port.
  template <typename Function>
  auto WithQueuePairs(Function function) {
    absl::MutexLock lock(&mutex_);
    return function(path_.queue_pairs());
  }

  int AddChannel(SoftChannel* channel);  // fills its descriptors
  void RemoveCq(SoftCq* cq);             // while no queue pair uses it
  int Poll(SoftCq* cq, int count, ibv_wc* completions);
  int RequestNotify(SoftCq* cq, bool solicited_only);
  int GetCqEvent(SoftChannel* channel, ibv_cq** cq, void** cq_context);
  uint32_t EventsRaised(SoftCq* cq) const;

  int AddQp(SoftQp* qp);
  void QueryQp(SoftQp* qp, ibv_qp_attr* attributes, ibv_qp_init_attr* init) const;
  int RemoveQp(SoftQp* qp);
  int PostSend(SoftQp* qp, ibv_send_wr* request, ibv_send_wr** bad);
  int PostReceive(SoftQp* qp, ibv_recv_wr* request, ibv_recv_wr** bad);

 private:
  SoftPort(std::unique_ptr<SubnetLink> link, std::string name, const Options& options);
  absl::Status Register();
  // Returns false if the channel has no event.
  static bool TakeCqEvent(SoftChannel* channel, ibv_cq** cq, void** cq_context);

  const std::unique_ptr<SubnetLink> link_;
  const std::string name_;
  const Options options_;
  const MonotonicClock system_clock_;
  const Clock* const clock_;
  const PortEventFds fds_;
  mutable absl::Mutex mutex_;
  DatagramPath path_ ABSL_GUARDED_BY(mutex_);
  AsyncEvents events_ ABSL_GUARDED_BY(mutex_);
  uint32_t polls_in_vain_ ABSL_GUARDED_BY(mutex_) = 0;  // in a row, on any completion queue
  RingMaintainer maintainer_;
  PortManagement management_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_H_
