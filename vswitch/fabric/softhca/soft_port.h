// SoftPort: one port of the software HCA.
//
// One mutex guards its three parts: Outbound (rings to other ports), Inbound (rings from them) and QueuePairs (the verbs'
// objects). Workers call PostSend and Poll; the subnet calls the PortSink half. A background thread does what neither may wait
// for: it flushes parked messages, notices dead peers and closes idle rings.
//
// Threads. Any thread may call all public members. The mutex is never held across a call to the SubnetLink or to another port,
// so ports that send to each other cannot deadlock. The last reference must not be dropped by the link's thread or the
// background thread.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/packet_capture.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/fabric/softhca/event_fd.h"
#include "vswitch/fabric/softhca/fault_injector.h"
#include "vswitch/fabric/softhca/inbound.h"
#include "vswitch/fabric/softhca/outbound.h"
#include "vswitch/fabric/softhca/port_counters.h"
#include "vswitch/fabric/softhca/queue_pairs.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {

class SoftPort final : public PortSink {
 public:
  struct Options {
    OutboundOptions outbound;
    const Clock* clock = nullptr;  // null: CLOCK_MONOTONIC. Outlives the port.
    // Only queries the port's configuration, beside the process that owns the port.
    bool query_only = false;
    // How long Open waits for the first configuration.
    absl::Duration patience = absl::Seconds(10);
    // After so many empty polls in a row, each further one yields the processor: the sender may need it. 0: never.
    uint32_t polls_before_yield = 0;
    // How long the destructor waits for parked messages to leave: a program may end right after its last completion.
    absl::Duration linger = absl::ZeroDuration();
    // How long the port receives from a ring that a restarted subnet does not know.
    absl::Duration unknown_ring_patience = absl::Seconds(10);
  };

  // Registers port `name` and returns once it is configured. kAlreadyExists if another living process owns it.
  static absl::StatusOr<std::shared_ptr<SoftPort>> Open(std::unique_ptr<SubnetLink> link, const std::string& name,
                                                        const Options& options);
  // Unregisters the port. Its contexts must be closed and its objects destroyed.
  ~SoftPort() override;

  const std::string& name() const { return name_; }
  bool query_only() const { return options_.query_only; }
  PortConfig config() const;
  PortCounters counters() const;
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
  bool ReceiveMad(std::vector<uint8_t>* mad);
  int mad_fd() const { return mad_event_.get(); }

  absl::Status StartCapture(const std::string& path);
  absl::StatusOr<CaptureReport> StopCapture();
  absl::optional<CaptureReport> Capture() const;

  // The verbs, with their return values. Objects belong to their maker.
  void AddContext(SoftContext* context);
  void RemoveContext(SoftContext* context);
  int GetAsyncEvent(SoftContext* context, ibv_async_event* event);

  void AddRegion(SoftMr* region);
  void RemoveRegion(SoftMr* region);

  int AddChannel(SoftChannel* channel);  // fills its descriptors
  void RemoveCq(SoftCq* cq);             // while no queue pair uses it
  int Poll(SoftCq* cq, int count, ibv_wc* completions);
  int RequestNotify(SoftCq* cq, bool solicited_only);
  int GetCqEvent(SoftChannel* channel, ibv_cq** cq, void** cq_context);
  uint32_t EventsRaised(SoftCq* cq) const;

  int AddQp(SoftQp* qp);
  int ModifyQp(SoftQp* qp, const ibv_qp_attr& attributes, int mask);
  void QueryQp(SoftQp* qp, ibv_qp_attr* attributes, ibv_qp_init_attr* init) const;
  int RemoveQp(SoftQp* qp);
  int Attach(SoftQp* qp, const Gid& mgid);
  int Detach(SoftQp* qp, const Gid& mgid);
  int PostSend(SoftQp* qp, ibv_send_wr* request, ibv_send_wr** bad);
  int PostReceive(SoftQp* qp, ibv_recv_wr* request, ibv_recv_wr** bad);

  // PortSink.
  void OnPortConfig(const PortConfig& config) override;
  void OnMad(Lid source, absl::Span<const uint8_t> mad) override;
  void OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) override;
  void OnSourceChanged(uint64_t ring, const SourceIdentity& source) override;
  void OnRingClosed(uint64_t ring) override;
  void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) override;
  void OnRingRefused(uint64_t request, const std::string& why) override;
  void OnGroup(Mlid mlid, const std::vector<Lid>& members) override;
  void OnFaults(const std::vector<FaultRule>& rules) override;
  void OnSubnetLost() override;

 private:
  // The descriptors and the time that the background thread waits for.
  struct Watched {
    int fd;
    uint64_t ring;
    bool inbound;
  };
  struct Vigil {
    std::vector<Watched> rings;
    bool space = false;  // also wait for room in rings
    absl::Duration time;
  };

  SoftPort(std::unique_ptr<SubnetLink> link, std::string name, const Options& options);
  absl::Status Register();

  // Sending.
  int SendOne(SoftQp* qp, const ibv_send_wr& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Transmit(const RecordHeader& header, const Gather& gather) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SourceIdentity OwnIdentity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Receiving.
  template <typename Done>
  void DrainInbound(uint64_t limit, Done done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Receive(InboundRing* ring, const RecordHeader& header, const uint8_t* payload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountTaken(const InboundRing& ring, uint64_t records) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveRing(InboundRing* ring) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A loopback is captured once, when it is sent.
  void CapturePacket(const RecordHeader& header, Lid slid, const Gid& sgid, const Gather& gather)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes sleeping receivers if there are records, and the background thread in time for delayed ones.
  void WakeReceivers(bool has_records) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WatchDueTime() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RingDoorbell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SilenceDoorbell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int PollOnce(SoftCq* cq, int count, ibv_wc* completions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeCqEvent(SoftChannel* channel, ibv_cq** cq, void** cq_context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddInbound(std::unique_ptr<InboundRing> ring) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Reports of the subnet.
  void TellChanges(const PortConfig& before, const PortConfig& after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseEndedRings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveToLid(Lid before, Lid after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Raise(ibv_event_type type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBackEventsOf(const SoftQp* qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RaiseForQueuePairs(ibv_event_type type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Carries out Outbound's LinkWishes.
  void RunLinkWork() ABSL_LOCKS_EXCLUDED(mutex_);
  void OpenRingTo(Lid destination) ABSL_LOCKS_EXCLUDED(mutex_);
  void OpenLoopback(Lid destination) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status MakeRing(uint64_t capacity, RingEnd* end, std::shared_ptr<RingMemory>* memory, UniqueFd* liveness);
  // Returns the sender to `destination` if it still wants a ring, else null.
  RingSender* Wishing(Lid destination) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The background thread.
  void Background();
  bool BackgroundTurn(Vigil* vigil) ABSL_LOCKS_EXCLUDED(mutex_);
  void WatchPeers(std::vector<Watched>* watched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sleep(Vigil* vigil) ABSL_LOCKS_EXCLUDED(mutex_);
  void PeerDied(const Watched& watched) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration SleepTime(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Kick() { RingEventFd(kick_.get()); }

  const std::unique_ptr<SubnetLink> link_;
  const std::string name_;
  const Options options_;
  const MonotonicClock system_clock_;
  const Clock* const clock_;
  const std::shared_ptr<UniqueFd> doorbell_;  // rung by producers that were asked to, and by this port
  const std::shared_ptr<UniqueFd> space_;     // rung by consumers that made room for a waiting producer
  const UniqueFd kick_;                       // wakes the background thread
  const UniqueFd mad_event_;

  mutable absl::Mutex mutex_;
  PortCounters counters_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<CountersPage> counters_page_ ABSL_GUARDED_BY(mutex_);  // null before registration
  Outbound outbound_ ABSL_GUARDED_BY(mutex_);
  Inbound inbound_ ABSL_GUARDED_BY(mutex_);
  QueuePairs queue_pairs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Mlid, std::vector<Lid>> groups_ ABSL_GUARDED_BY(mutex_);
  FaultInjector faults_ ABSL_GUARDED_BY(mutex_);
  std::vector<SoftContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PacketCapture> capture_ ABSL_GUARDED_BY(mutex_);
  bool configured_ ABSL_GUARDED_BY(mutex_) = false;
  bool subnet_lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t records_taken_ ABSL_GUARDED_BY(mutex_) = 0;     // out of rings, or after a simulated delay
  uint32_t polls_in_vain_ ABSL_GUARDED_BY(mutex_) = 0;     // in a row, on any completion queue
  bool doorbell_rung_ ABSL_GUARDED_BY(mutex_) = false;     // by this port, and not cleared since
  bool background_awake_ ABSL_GUARDED_BY(mutex_) = false;  // it watches parked messages and needs no kick
  absl::Time background_wakes_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;

  absl::Mutex mad_mutex_;
  std::deque<std::vector<uint8_t>> mads_ ABSL_GUARDED_BY(mad_mutex_);

  std::thread background_;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_PORT_H_
