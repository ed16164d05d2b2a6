// Forwarder: the data path of one VES on one worker. Frames enter in batches from local ports and from the fabric, and leave
// to either.
//
// A batch passes these stages (ForwardFromPort and ForwardFromFabric in forwarder.cc):
//
//     from a port:    ParseHeaders  AdmitFromPort    Canonicalise  LearnLocal   Resolve  Transmit
//     from the fabric: Decapsulate  ParseHeaders  AdmitFromFabric  LearnRemote  Resolve  Transmit
//
// Inside, a frame has its fabric form: VLAN v != 0 carries its 802.1Q tag, VID 0 none (or a priority tag). Ports add access
// and native tags on entry and remove them on exit.
//
// Split horizon: a frame from the fabric never returns to the fabric, and a frame from a port never returns to that port.
// Local ports of one VES switch locally, unless this agent is a limited member of the partition: limited members are isolated
// from each other, also on one host.
//
// Threads. The worker that owns the forwarder calls everything, with two exceptions: control may call the setters at the end
// of the public part at any time, and calls Rebind while the worker is stopped. The forwarder never waits.
#ifndef EOIB_VSWITCH_FORWARDER_H_
#define EOIB_VSWITCH_FORWARDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder_counters.h"
#include "vswitch/held_frames.h"
#include "vswitch/peer_tracker.h"
#include "vswitch/port/port.h"
#include "vswitch/stage_probe.h"
#include "vswitch/vlan_policy.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

// A local port and its state in the VES.
struct LocalPort {
  Port* port = nullptr;
  VlanPolicy vlan;
  VPortId vport;
  std::unique_ptr<PortCounters> counters = std::make_unique<PortCounters>();
  // In the current batch: frames that the port took, and their bytes.
  size_t taken = 0;
  size_t taken_bytes = 0;
  bool has_stations = false;  // MACs may have been learned behind it
};

class Forwarder {
 public:
  static constexpr size_t kBatch = 64;

  struct Options {
    VlanSet vlans = VlanSet::All();  // VLANs of the VES
    uint16_t group_fwd_mask = kDefaultGroupForwardMask;
    Mgid flood_mgid;
    HeaderForm header_form = HeaderForm::kEoib;
    absl::Duration hold = absl::Seconds(1);  // how long a frame is held for a path
    uint64_t flow_seed = 0;                  // seed of the flow hash, which chooses an aggregate's address; secret
  };
  // The forwarder's connection to the fabric.
  struct Uplink {
    UdEndpoint* endpoint = nullptr;  // uses the forwarder's pool. Null: none now; local ports still switch
    PeerAddress own;                 // source address of our own multicast, to recognise its copies
    bool limited_member = false;     // limited member of the partition: no local switching
  };
  // The objects that a forwarder works with. All outlive it.
  struct Parts {
    BufferPool* pool;
    Fdb* fdb;
    VPortDirectory* directory;
    PuntQueue* punts;
    InjectQueue* injected;
    const Clock* clock;
  };

  Forwarder(const Options& options, const Parts& parts, const Uplink& uplink);
  // Frees the buffers of held frames.
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // Call it before the worker runs. Returns the port's index. In the VLANs that the port carries, a frame with source `pinned`
  // from anywhere else is dropped; a zero MAC pins nothing.
  uint32_t AddPort(Port* port, const VlanPolicy& vlan, MacAddr pinned = MacAddr());
  // For the worker: reports each stage to `probe` from now on; null: to none. `probe` must outlive its use.
  void SetProbe(StageProbe* probe) { probe_ = probe; }

  // Each handles one batch and returns whether there was work.
  bool PollFabric();
  bool PollPort(uint32_t index);
  bool PollInjected();
  // Frees the buffers of completed sends, drops held frames past their deadline, and notifies the punt queue once if the
  // endpoint has failed.
  void Housekeep();
  bool HasHeldFrames() const { return !held_.empty(); }

  // While no worker runs: changes to another uplink, or to none. Counts incomplete sends of the former endpoint as dropped;
  // held frames stay held. The former endpoint may then be destroyed.
  void Rebind(const Uplink& uplink);

  UdEndpoint* endpoint() const { return uplink_.endpoint; }
  InjectQueue* injected() const { return parts_.injected; }
  const std::vector<LocalPort>& ports() const { return ports_; }
  const ForwarderCounters& counters() const { return counters_; }

  // Any thread. The address handle of the flood group; None() while the group is not joined.
  void SetFloodHandle(AhIndex ah) { flood_ah_.store(ah.value(), std::memory_order_release); }
  // Any thread. The largest frame, from the destination MAC on, with its tag: the flood group's MTU minus 4.
  void SetMtu(uint32_t bytes) { mtu_.store(bytes, std::memory_order_release); }
  uint32_t mtu() const { return mtu_.load(std::memory_order_acquire); }

 private:
  // A frame in the batch, with the results of the stages.
  struct Packet {
    Frame frame;
    EthernetInfo ethernet;
    FdbKey source;
    FdbKey destination;
    VPortId from = VPortId::None();
    VPortId to = VPortId::None();  // None: flood
    L4Checksum vouched = L4Checksum::kNone;
    bool is_impostor = false;            // its source is pinned elsewhere
    const Datagram* datagram = nullptr;  // kFabric only
  };
  static constexpr uint32_t kFabric = 0xffffffff;

  // Stages. Each goes over the batch. A frame that ends in a stage is counted, freed and removed from the batch.
  void ForwardFromPort(uint32_t port);
  void ForwardFromFabric();
  void RetryHeld();
  bool RetryOne(const HeldFrames::Held& held);
  void ForwardInjected(const Injected& message);
  void CountNotInjected(uint64_t frames, DropReason reason);
  void Decapsulate(size_t received);
  void ParseHeaders();
  void AdmitFromPort(const LocalPort& port);
  void AdmitFromFabric();
  void Canonicalise();
  void LearnLocal(LocalPort* port);
  void LearnRemote();
  void Resolve(uint32_t ingress);
  void Transmit(uint32_t ingress);

  // Steps of one frame.
  DropReason DecapsulateOne(const Datagram& datagram, Packet* packet);
  DropReason AdmitOneFromPort(const LocalPort& port, Packet* packet) const;
  DropReason AdmitOneFromFabric(Packet* packet) const;
  DropReason CanonicaliseOne(Packet* packet);
  DropReason ResolveOne(uint32_t ingress, Packet* packet) const;
  bool FloodReachesSomebody(uint32_t ingress, Vid vid) const;
  void TransmitFlood(uint32_t ingress, Packet* packet);
  void TransmitKnown(Packet* packet);
  Route RouteTo(VPortId vport, absl::Span<const uint8_t> frame) const;
  Route FloodRoute() const;
  void TransmitToPort(LocalPort* port, const Packet& packet, bool strip);
  void CountLost(LocalPort* port, size_t frames, DropReason reason);
  void QueueToFabric(Packet* packet, VPortId vport, AhIndex ah, Qpn qpn);
  void Hold(const SendRequest& request, VPortId vport);
  void FlushToFabric();
  bool FollowsHandle(SendRequest* request, VPortId vport) const;
  void FlushToPort(LocalPort* port);
  void Discard(BufferId buffer, DropReason reason);

  // Learning.
  void LearnBatch(FdbOrigin origin);
  bool IsPinnedElsewhere(FdbKey source, VPortId from) const;
  void FollowRestart(size_t at);
  void LearnOne(FdbKey key, VPortId vport, FdbOrigin origin);

  template <typename Step>
  void KeepIf(Step step);
  void CountIn(size_t frames, Counter* side);
  // Reports the end of a stage to the probe.
  void Passed(Stage stage) {
    if (ABSL_PREDICT_FALSE(probe_ != nullptr)) probe_->Passed(stage);
  }

  const Options options_;
  const Parts parts_;
  Uplink uplink_;
  bool told_of_failure_ = false;  // control was notified that the uplink's endpoint failed
  std::vector<LocalPort> ports_;
  absl::flat_hash_map<MacAddr, uint32_t> pinned_;  // pinned MAC to index in ports_
  std::atomic<uint32_t> flood_ah_{AhIndex::None().value()};
  std::atomic<uint32_t> mtu_{0};
  ForwarderCounters counters_;
  PeerTracker peers_;
  // Move punts are only logged and any frame may cause one, so rate-limit them: they must not crowd out other punts.
  static constexpr int kMovesTold = 10;  // a second
  TokenBucket moves_told_, damped_told_;
  HeldFrames held_;
  StageProbe* probe_ = nullptr;

  // The current batch.
  std::array<Packet, kBatch> batch_;
  size_t batch_size_ = 0;
  std::array<Frame, kBatch> frames_;
  std::array<Datagram, kBatch> datagrams_;
  std::array<FdbKey, kBatch> keys_;
  std::array<VPortId, kBatch> vports_;
  std::array<uint16_t, kBatch> stale_;
  std::array<SendRequest, kBatch> sends_;
  std::array<VPortId, kBatch> send_vports_;  // None: the flood group
  std::array<DropReason, kBatch> results_;
  size_t send_count_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_H_
