// FabricSender: the egress of a forwarder to the fabric. It puts the EoIB header in front of each
// frame, collects a batch, posts it, and reaps the completions.
//
// A large frame leaves as a train: a datagram for each buffer of its chain, with the header of a
// segment. A train is posted as a whole or not at all. The frame's fate is that of its last
// datagram.
//
// Frames for a peer that has no address handle yet are held until control publishes its path
// (HeldFrames). Control may also replace an address handle after a frame's route was looked up. The
// send then fails as unresolved, while the directory already has the new handle, or another address
// of the aggregate; such a frame is sent once more.
//
// Floods go to the multicast group of the VES, or, with a flood list, as unicast copies to the
// agents in it. Each copy has a buffer of its own, because a buffer in flight has one completion,
// and the next copy may wait for a path meanwhile.
#ifndef EOIB_VSWITCH_FORWARDER_FABRIC_SENDER_H_
#define EOIB_VSWITCH_FORWARDER_FABRIC_SENDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "fdb/vport_address.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/flood_list.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/forwarder/held_frames.h"
#include "vswitch/forwarder/packet_batch.h"
#include "vswitch/wire/eoib_header.h"
#include "vswitch/wire/flow_hash.h"

namespace eoib {

// Threads: the worker that owns the forwarder; any thread calls SetFloodHandle.
//
// Ownership: Send, SendFlood and SendMessage take the buffers of the frame. The sender owns them
// until they are posted, held or freed. After Flush no frame waits to be posted, so no buffer of
// the batch is left.
class FabricSender {
 public:
  struct Options {
    HeaderForm header_form = HeaderForm::kEoib;
    absl::Duration hold = absl::Seconds(1);  // how long a frame is held for a path
    // Seed of the flow hash, which chooses an aggregate's address; secret.
    uint64_t flow_seed = 0;
    FloodList* floods = nullptr;  // floods go to these agents; null: to the flood group
  };
  // The pointers outlive the sender.
  FabricSender(const Options& options, BufferPool* pool, const VPortDirectory* directory,
               PuntQueue* punts, const Clock* clock, ForwarderCounters* counters)
      : options_(options),
        pool_(pool),
        directory_(directory),
        punts_(punts),
        clock_(clock),
        counters_(counters) {}
  // Frees the buffers of held frames.
  ~FabricSender();
  FabricSender(const FabricSender&) = delete;
  FabricSender& operator=(const FabricSender&) = delete;

  // Call it while the worker is stopped. Null: no endpoint now; frames are dropped. Counts
  // incomplete sends of the former endpoint as dropped; held frames stay held. The former endpoint
  // may then be destroyed.
  void SetEndpoint(UdEndpoint* endpoint);
  // Any thread. The address handle of the flood group; None() while the group is not joined.
  void SetFloodHandle(AhIndex ah) { flood_ah_.store(ah.value(), std::memory_order_release); }

  // The route of a frame to `vport`. For an aggregate, the route to the address that takes the
  // frame's flow.
  Route RouteTo(VPortId vport, absl::Span<const uint8_t> frame) const {
    return directory_->Get(vport, [this, frame] { return FlowHash(options_.flow_seed, frame); });
  }

  // True if a flood in `vid` goes to the fabric.
  bool Floods(Vid vid) const;
  // For control: the agents that get a copy of a flood in `vid`; whether one goes to the group.
  std::vector<VPortId> AgentsInFloods(Vid vid) const;
  bool CanFloodToGroup() const { return options_.floods == nullptr && !FloodRoute().ah.IsNone(); }
  // True if a large frame can go this way as it is. Others must be cut (FrameCutter).
  bool TakesLarge(const Route& route) const {
    return route.takes_segments && options_.header_form == HeaderForm::kEoib;
  }

  // These take the frame's buffers, and count what becomes of the copy. SendFlood and SendMessage
  // also count the copies that they make. `route` is that of packet.to, of kind kRemote; it
  // TakesLarge if the frame IsLarge. They post what they collected before if the batch is full.
  void Send(const Packet& packet, const Route& route) {
    directory_->NoteSent(packet.to);
    Queue(packet, packet.to, route);
  }
  void SendFlood(const Packet& packet);
  // A message of this agent: to packet.to, or, if that is None, to the flood group, or to all
  // agents of the flood list.
  void SendMessage(const Packet& packet);
  // Posts what was sent since the last call.
  void Flush();

  // Sends the held frames whose path is known by now.
  void RetryHeld();
  bool HasHeldFrames() const { return !held_.empty(); }
  // Drops the held frames whose deadline has passed.
  void DropExpired();
  // Frees the buffers of completed sends. Notifies the punt queue once if the endpoint has failed.
  void Reap();

 private:
  void SendToGroup(const Packet& packet);
  void SendMessageTo(const Packet& packet);
  void SendFloodTo(const Packet& packet);
  template <typename Wanted>
  void Replicate(const Packet& packet, Wanted wanted, void (FabricSender::*send)(const Packet&));
  bool Copy(const Packet& packet, Packet* copy);
  void Queue(const Packet& packet, VPortId vport, const Route& route);
  void WriteHeader(const Packet& packet, SendRequest* request);
  SendRequest WriteSegmentHeaders(const Packet& packet);
  void MakeRoom();
  void Append(SendRequest request, VPortId vport);
  void DiscardUnposted(size_t first, size_t end);
  void Hold(const SendRequest& request, VPortId vport);
  bool RetryOne(const HeldFrames::Frame& held);
  bool FollowsHandle(size_t first, size_t end);
  Route FloodRoute() const;
  void Discard(BufferId buffer, DropReason reason);

  const Options options_;
  BufferPool* const pool_;
  const VPortDirectory* const directory_;
  PuntQueue* const punts_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  UdEndpoint* endpoint_ = nullptr;
  bool reported_failure_ = false;  // control was notified that the endpoint failed
  std::atomic<uint32_t> flood_ah_{AhIndex::None().value()};
  HeldFrames held_;

  uint16_t next_segment_id_ = 0;

  // The batch to post: trains.
  static constexpr size_t kBatch = PacketBatch::kCapacity + kMaxSegments;
  std::array<SendRequest, kBatch> requests_;
  std::array<VPortId, kBatch> vports_;  // None: the flood group
  std::array<DropReason, kBatch> results_;
  size_t count_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_FABRIC_SENDER_H_
