// Forwarder: the data path of one queue of a VES, on one worker. Frames enter in batches from local
// ports and from the fabric, and leave to either. ForwardFromPort and ForwardFromFabric in
// forwarder.cc list the stages, README.md ("The path of a frame") explains them.
//
// Inside, a frame has its fabric form: VLAN v != 0 carries its 802.1Q tag, VID 0 none (or a
// priority tag). Ports add access and native tags on entry and remove them on exit.
//
// Split horizon: a frame from the fabric never returns to the fabric, and a frame from a port never
// returns to that port. Local ports of one VES switch locally, unless this agent is a limited
// member of the partition: limited members are isolated from each other, also on one host.
//
// Threads: the worker that owns the forwarder. Control may call the setters at the end of the
// public part at any time, and Rebind while the worker is stopped. The forwarder never waits.
//
// Ownership: the forwarder owns the frames of its batch, the held ones and the incomplete ones, and
// no port, pool or endpoint. When a batch ends, each of its buffers is in flight, held or free.
// Each frame has one disposition, which is counted once (forwarder_counters.h). The index of a port
// stays the same until RemovePort.
#ifndef EOIB_VSWITCH_FORWARDER_FORWARDER_H_
#define EOIB_VSWITCH_FORWARDER_FORWARDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder/control_link.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/fabric_sender.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/forwarder/frame_cutter.h"
#include "vswitch/forwarder/packet_batch.h"
#include "vswitch/forwarder/reassembler.h"
#include "vswitch/forwarder/source_learner.h"
#include "vswitch/forwarder/stage_probe.h"
#include "vswitch/forwarder/vlan_policy.h"
#include "vswitch/port/port.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {

// A local port and its state in the VES.
struct LocalPort {
  // Null: the port was removed, and its index is free. Then it carries no VLAN.
  Port* port = nullptr;
  VlanPolicy vlan;
  VPortId vport;
  std::unique_ptr<PortCounters> counters = std::make_unique<PortCounters>();
  // In the current batch: frames that the port took, and their bytes.
  size_t taken = 0;
  size_t taken_bytes = 0;
  // MACs may have been learned behind it. The queues of a vPort share it: one learns what another
  // one has to flush.
  std::shared_ptr<std::atomic<bool>> has_stations = std::make_shared<std::atomic<bool>>(false);
  bool is_further = false;  // the vPort belongs to the forwarder of its first queue
};

class Forwarder {
 public:
  static constexpr size_t kBatch = PacketBatch::kCapacity;
  // Enough for 60 frames of 64 KiB in segments of 4 KiB.
  static constexpr size_t kReassemblyBuffers = 1024;

  struct Options {
    VlanSet vlans = VlanSet::All();  // VLANs of the VES
    uint16_t group_fwd_mask = kDefaultGroupForwardMask;
    Mgid flood_mgid;
    HeaderForm header_form = HeaderForm::kEoib;
    absl::Duration hold = absl::Seconds(1);  // how long a frame is held for a path
    // Seed of the flow hash, which chooses an aggregate's address; secret.
    uint64_t flow_seed = 0;
    // The most that wait for other segments of their frames.
    size_t reassembly_buffers = kReassemblyBuffers;
    MacAddr message_source;  // Ethernet source of this agent's messages
    // Floods go to these agents as unicast; null: to the flood group.
    FloodList* floods = nullptr;
  };
  // The forwarder's connection to the fabric.
  struct Uplink {
    // Uses the forwarder's pool. Null: none now; local ports still switch.
    UdEndpoint* endpoint = nullptr;
    PeerAddress own;              // source address of our own multicast, to recognise its copies
    bool limited_member = false;  // limited member of the partition: no local switching
  };
  // The objects that a forwarder works with. All outlive it.
  struct Dependencies {
    BufferPool* pool;
    Fdb* fdb;
    VPortDirectory* directory;
    PuntQueue* punts;
    ReceivedMessages* messages;
    InjectQueue* injected;
    const Clock* clock;
  };

  Forwarder(const Options& options, const Dependencies& dependencies, const Uplink& uplink);
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // While no worker runs. Returns the port's index. In the VLANs that the port carries, a frame
  // with source `pinned` from anywhere else is dropped; a zero MAC pins nothing.
  uint32_t AddPort(Port* port, const VlanPolicy& vlan, MacAddr pinned = MacAddr());
  // While no worker runs. Adds the port of another queue of a vPort, which has this index and is
  // `first` at the first queue's forwarder. Remove it before that.
  void AddFurtherPort(uint32_t index, const LocalPort& first, Port* port, MacAddr pinned);
  // While no worker runs. Flushes all that the FDB has of the port, and frees its index. Control
  // has handled all punts.
  void RemovePort(uint32_t index);
  // While no worker runs: the FDB has MACs behind the port that were not learned here.
  void NoteStations(uint32_t index) {
    ports_[index].has_stations->store(true, std::memory_order_relaxed);
  }
  // While no worker runs: the VLANs of the VES and the groups that it forwards, in place of those
  // of the options.
  void SetAdmission(const VlanSet& vlans, uint16_t group_fwd_mask);
  // For the worker: reports each stage to `probe` from now on; null: to none. `probe` must outlive
  // its use.
  void SetProbe(StageProbe* probe) { probe_ = probe; }

  // Each handles one batch (PollFabric: at most that many datagrams) and returns whether there was
  // work.
  bool PollFabric(size_t most = kBatch);
  bool PollPort(uint32_t index);
  bool PollInjected();
  // Sends one of the messages that control has queued. PollInjected sends them, too, before frames.
  bool PollMessages();
  // Frees the buffers of completed sends, drops held and incomplete frames past their deadline, and
  // notifies the punt queue once if the endpoint has failed.
  void Housekeep();
  // True if frames wait that have a deadline.
  bool HasWaitingFrames() const { return fabric_.HasHeldFrames() || reassembler_.HasIncomplete(); }
  // True while the send queue has too little room for what a port may bring. PollPort should then
  // wait.
  bool IsCongested() const {
    return uplink_.endpoint != nullptr && uplink_.endpoint->IsCongested();
  }
  bool HasSendsInFlight() const {
    return uplink_.endpoint != nullptr && uplink_.endpoint->sends_in_flight() != 0;
  }

  // While no worker runs: changes to another uplink, or to none. See FabricSender::SetEndpoint.
  void Rebind(const Uplink& uplink);
  // While no worker runs: the queue pairs of the VES's other queues, at the GID of this one. The
  // HCA loops their multicast back, too.
  void SetOtherQueues(const std::vector<Qpn>& queue_pairs) { other_queues_ = queue_pairs; }

  // What becomes of a frame from a port, by the same steps that frames take.
  struct Verdict {
    // The step that was the last one: kParse, kAdmit, kLearn, kResolve, or kTransmit if the frame
    // leaves.
    Stage stage = Stage::kParse;
    DropReason reason = DropReason::kNone;  // why it ends there
    Packet packet;                          // as the steps have left it
    std::vector<uint32_t> ports;            // those that get it
    std::vector<VPortId> agents;  // a flood with a flood list: those that get a copy of it
    bool to_group = false;        // a flood without one
  };
  // Control, also while the worker runs. Changes nothing.
  Verdict Decide(uint32_t index, absl::Span<uint8_t> frame) const;

  UdEndpoint* endpoint() const { return uplink_.endpoint; }
  InjectQueue* injected() const { return control_.injected(); }
  const std::vector<LocalPort>& ports() const { return ports_; }
  const ForwarderCounters& counters() const { return counters_; }
  // So far.
  const PortTraffic& traffic() const { return traffic_; }

  // Any thread. The address handle of the flood group; None() while the group is not joined.
  void SetFloodHandle(AhIndex ah) { fabric_.SetFloodHandle(ah); }
  // Any thread. The largest frame, from the destination MAC on, with its tag: the flood group's MTU
  // minus 4.
  void SetMtu(uint32_t bytes) { mtu_.store(bytes, std::memory_order_release); }
  uint32_t mtu() const { return mtu_.load(std::memory_order_acquire); }

 private:
  // As an ingress: the fabric, not a port.
  static constexpr uint32_t kFabric = 0xffffffff;

  // Each handles the batch from its headers to its egress.
  void ForwardFromPort(uint32_t index);
  void ForwardFromFabric();

  // Stages. Each goes over the batch.
  void Decapsulate(size_t received);
  void Reassemble();
  void ParseHeaders();
  void AdmitFromPort(const LocalPort& port);
  void AdmitFromFabric();
  void Canonicalise();
  void LearnLocal(LocalPort* port);
  void LearnRemote();
  void Resolve(uint32_t ingress);
  void Transmit(uint32_t ingress);

  bool IsOwn(const PeerAddress& source) const;

  // Steps of one frame.
  DropReason DecapsulateOne(const Datagram& datagram, Packet* packet);
  bool ReassembleOne(absl::Time now, Packet* packet);
  DropReason AdmitOneFromPort(const LocalPort& port, Packet* packet) const;
  DropReason ResolveOne(uint32_t ingress, Packet* packet) const;
  bool FloodLeaves(uint32_t ingress, Vid vid) const;
  bool FloodLeavesAt(uint32_t ingress, uint32_t index, Vid vid, bool* strip) const;
  DropReason LeaveAt(uint32_t index, const Packet& packet, bool* strip) const;
  DropReason DecideOne(uint32_t index, Verdict* verdict) const;
  DropReason DecideEgress(uint32_t index, Verdict* verdict) const;
  void TransmitFlood(uint32_t ingress, const Packet& packet);
  void TransmitKnown(const Packet& packet);
  void TransmitToFabric(const Packet& packet, const Route& route);
  void CopyToPort(LocalPort* port, const Packet& packet, bool strip);
  void TransmitToPort(LocalPort* port, const Packet& packet, bool strip);

  void FlushToPort(LocalPort* port);
  void CountLost(LocalPort* port, size_t frames, DropReason reason);
  void DropImpostors();
  void CountIn(size_t frames, Counter* side);
  size_t CountRefused(const PortReceiveCounts& counts);
  void SendMessage(Packet packet);
  // Reports the end of a stage to the probe.
  void Passed(Stage stage) {
    if (ABSL_PREDICT_FALSE(probe_ != nullptr)) probe_->Passed(stage);
  }

  Options options_;
  BufferPool* const pool_;
  Fdb* const fdb_;
  VPortDirectory* const directory_;
  const Clock* const clock_;
  Uplink uplink_;
  std::vector<Qpn> other_queues_;
  std::vector<LocalPort> ports_;
  std::atomic<uint32_t> mtu_{0};
  ForwarderCounters counters_;
  SourceLearner learner_;
  FabricSender fabric_;
  Reassembler reassembler_;
  FrameCutter cutter_;
  ControlLink control_;
  StageProbe* probe_ = nullptr;

  // The current batch, and what its stages hand to and get from the ports, the endpoint and the
  // FDB.
  PacketBatch batch_;
  std::array<Frame, kBatch> frames_;
  std::array<Datagram, kBatch> datagrams_;
  std::array<FdbKey, kBatch> keys_;
  std::array<VPortId, kBatch> vports_;
  size_t segments_in_batch_ = 0;
  PortTraffic traffic_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FORWARDER_H_
