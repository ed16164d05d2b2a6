// FabricSender: the egress of a forwarder to the fabric. It puts the EoIB header in front of each frame, collects a batch,
// posts it, and reaps the completions.
//
// Frames for a peer that has no address handle yet are held until control publishes its path (HeldFrames). Control may also
// replace an address handle after a frame's route was looked up. The send then fails as unresolved, while the directory already
// has the new handle, or another address of the aggregate; such a frame is sent once more.
#ifndef EOIB_VSWITCH_FABRIC_SENDER_H_
#define EOIB_VSWITCH_FABRIC_SENDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "fdb/vport_address.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/buffer_pool.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder_counters.h"
#include "vswitch/held_frames.h"
#include "vswitch/packet_batch.h"
#include "vswitch/wire/flow_hash.h"

namespace eoib {

// For the worker that owns the forwarder, except SetFloodHandle.
class FabricSender {
 public:
  struct Options {
    HeaderForm header_form = HeaderForm::kEoib;
    absl::Duration hold = absl::Seconds(1);  // how long a frame is held for a path
    uint64_t flow_seed = 0;                  // seed of the flow hash, which chooses an aggregate's address; secret
  };
  // The pointers outlive the sender.
  FabricSender(const Options& options, BufferPool* pool, const VPortDirectory* directory, PuntQueue* punts, const Clock* clock,
               ForwarderCounters* counters)
      : options_(options), pool_(pool), directory_(directory), punts_(punts), clock_(clock), counters_(counters) {}
  // Frees the buffers of held frames.
  ~FabricSender();
  FabricSender(const FabricSender&) = delete;
  FabricSender& operator=(const FabricSender&) = delete;

  // Call it while the worker is stopped. Null: no endpoint now; frames are dropped. Counts incomplete sends of the former
  // endpoint as dropped; held frames stay held. The former endpoint may then be destroyed.
  void SetEndpoint(UdEndpoint* endpoint);
  // Any thread. The address handle of the flood group; None() while the group is not joined.
  void SetFloodHandle(AhIndex ah) { flood_ah_.store(ah.value(), std::memory_order_release); }

  // The route of a frame to `vport`. For an aggregate, the route to the address that takes the frame's flow.
  Route RouteTo(VPortId vport, absl::Span<const uint8_t> frame) const {
    return directory_->Get(vport, [this, frame] { return FlowHash(options_.flow_seed, frame); });
  }

  // These take the frame's buffer, and count what becomes of the copy. At most PacketBatch::kCapacity calls between two
  // Flushes. `route` is that of packet.to, of kind kRemote.
  void Send(const Packet& packet, const Route& route) { Queue(packet, packet.to, route); }
  void SendFlood(const Packet& packet);
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
  void Queue(const Packet& packet, VPortId vport, const Route& route);
  void Hold(const SendRequest& request, VPortId vport);
  bool RetryOne(const HeldFrames::Held& held);
  bool FollowsHandle(SendRequest* request, VPortId vport) const;
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

  // The batch to post.
  std::array<SendRequest, PacketBatch::kCapacity> requests_;
  std::array<VPortId, PacketBatch::kCapacity> vports_;  // None: the flood group
  std::array<DropReason, PacketBatch::kCapacity> results_;
  size_t count_ = 0;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_SENDER_H_
