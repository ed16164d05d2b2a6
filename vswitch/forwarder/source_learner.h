// SourceLearner: learns the sources of a batch, so that replies find their way.
//
// It refreshes known sources without a lock and learns the others one by one, before the batch is
// delivered. It punts to control what the other agents have to know, and refuses sources that are
// pinned to another port.
#ifndef EOIB_VSWITCH_FORWARDER_SOURCE_LEARNER_H_
#define EOIB_VSWITCH_FORWARDER_SOURCE_LEARNER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/forwarder_counters.h"
#include "vswitch/forwarder/packet_batch.h"
#include "vswitch/forwarder/peer_tracker.h"
#include "vswitch/forwarder/vlan_policy.h"

namespace eoib {

// For the worker that owns the forwarder. The constructor's arguments outlive it.
class SourceLearner {
 public:
  SourceLearner(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts, const Clock* clock,
                ForwarderCounters* counters);

  // In the VLANs that `vlan` carries, `mac` is learned at `vport` only. Call both while no worker
  // runs.
  void Pin(MacAddr mac, VPortId vport, const VlanPolicy& vlan) {
    pinned_.emplace(mac, Pinned{vport, vlan});
  }
  void Unpin(VPortId vport) {
    absl::erase_if(pinned_, [vport](const auto& pinned) { return pinned.second.vport == vport; });
  }

  // Learns the sources of a batch that came from local port `vport`, or from the fabric. Marks
  // impostors (a source that is pinned to another port) and returns true if there are any.
  bool LearnLocal(VPortId vport, PacketBatch* batch);
  bool LearnRemote(PacketBatch* batch);
  // Whether `source` is pinned to another port than `from`.
  bool IsPinnedElsewhere(FdbKey source, VPortId from) const;
  // The vPort of the peer that sent a datagram which has no source to learn. None if the directory
  // is full.
  VPortId SenderOf(const Datagram& datagram) { return peers_.VPortOf(datagram); }

 private:
  struct Pinned {
    VPortId vport;
    VlanPolicy vlan;
  };
  bool Learn(FdbOrigin origin, PacketBatch* batch);
  void LearnOne(FdbKey key, VPortId vport, FdbOrigin origin);
  void Report(Punt::Kind kind, FdbKey key, VPortId vport, VPortId previous);
  bool WasJustReported(FdbKey key, VPortId vport);

  Fdb* const fdb_;
  PuntQueue* const punts_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  PeerTracker peers_;
  absl::flat_hash_map<MacAddr, Pinned> pinned_;
  // Any frame may cause a punt, so each kind is limited: one must not crowd out the others.
  std::vector<TokenBucket> limits_;
  // The last reports of sources that did not move, in the slot of their MAC.
  struct Overruled {
    FdbKey key;
    VPortId vport;
    absl::Time at = absl::InfinitePast();
  };
  std::array<Overruled, 256> overruled_;

  // The sources of the batch, and the vPorts from which they were heard.
  std::array<FdbKey, PacketBatch::kCapacity> keys_;
  std::array<VPortId, PacketBatch::kCapacity> vports_;
  std::array<uint16_t, PacketBatch::kCapacity> stale_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_SOURCE_LEARNER_H_
