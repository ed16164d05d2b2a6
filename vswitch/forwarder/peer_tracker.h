// PeerTracker: finds the vPort of the peer that sent a datagram, and punts new peers and changed
// LIDs to control.
//
// A peer is an agent's queue pair: (GID, QPN). Its vPort is a data-only one until the agent
// announces itself; then control gives the address to the agent's vPort.
#ifndef EOIB_VSWITCH_FORWARDER_PEER_TRACKER_H_
#define EOIB_VSWITCH_FORWARDER_PEER_TRACKER_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder/control_queues.h"
#include "vswitch/forwarder/forwarder_counters.h"

namespace eoib {

// For the worker that owns the forwarder. The constructor's arguments outlive it.
class PeerTracker {
 public:
  // The most peers known at a time.
  static constexpr size_t kMaxPeers = 65536;

  PeerTracker(VPortDirectory* directory, PuntQueue* punts, const Clock* clock,
              ForwarderCounters* counters)
      : directory_(directory), punts_(punts), clock_(clock), counters_(counters) {}

  // The vPort of the peer that sent the datagram. None if the directory has no room for it.
  VPortId VPortOf(const Datagram& datagram);

 private:
  // A peer: the vPort that the directory gave in some generation, and the last source LID.
  struct KnownPeer {
    explicit KnownPeer(absl::Time now) : lid_change_punts(1, kLidChangeBurst, now) {}

    VPortId vport = VPortId::None();
    uint64_t generation = kNoGeneration;
    Lid slid;
    TokenBucket lid_change_punts;  // limits reports of LID changes to control
    bool punt_pending = false;     // the punt for this peer is still to be sent: the queue was full
  };
  // Changes of a peer's LID reported in a burst; after it one per second.
  static constexpr int kLidChangeBurst = 8;
  static constexpr size_t kFewPeers = 128;
  // A value that no generation of the directory has: forces a new lookup.
  static constexpr uint64_t kNoGeneration = ~uint64_t{0};

  VPortId LookUp(const Datagram& datagram, uint64_t generation);
  KnownPeer* FindOrAdd(const PeerAddress& peer, Lid slid, uint64_t generation);
  void MakeRoom(uint64_t generation);
  void ReportLidChange(const Datagram& datagram, KnownPeer* peer);

  VPortDirectory* const directory_;
  PuntQueue* const punts_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  // Has peers of former generations, too, until it has sweep_at_ of them all.
  absl::flat_hash_map<PeerAddress, KnownPeer> known_;
  size_t sweep_at_ = kFewPeers;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FORWARDER_PEER_TRACKER_H_
