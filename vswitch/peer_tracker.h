// PeerTracker: which vPort a datagram from the fabric came from, and what its coming tells of the peer.
//
// A peer is an agent's queue pair: (GID, QPN). Control hears of each new one, for its path, and of each whose path has changed.
// A MAC that is known behind one queue pair of a port and comes from another tells of an agent that restarted there: its former
// vPort is the same agent's, and with its address in the directory all that is behind it is reached where the agent is now. All
// addresses of an aggregate are one vPort's, and each of them may restart.
#ifndef EOIB_VSWITCH_PEER_TRACKER_H_
#define EOIB_VSWITCH_PEER_TRACKER_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/clock.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder_counters.h"

namespace eoib {

// Of the worker that owns the forwarder. What it is given outlives it.
class PeerTracker {
 public:
  // Agents that seem to have restarted, in any second, whose MACs are moved in one step. Each makes the tracker forget what it
  // knows. Beyond that, as of one that sends from two queue pairs in turn, a peer gets a vPort for each, and MACs move one by
  // one.
  static constexpr uint32_t kReaddressesPerSecond = 64;

  PeerTracker(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts, const Clock* clock, ForwarderCounters* counters)
      : fdb_(fdb), directory_(directory), punts_(punts), clock_(clock), counters_(counters) {}

  // Peers that are known at a time. Who invents more makes the tracker forget.
  static constexpr size_t kMostKnown = 65536;

  // The vPort of the peer that sent the datagram, in which is a frame of `source`. None if the directory has no room for it.
  VPortId VPortOf(const Datagram& datagram, const FdbKey& source);
  // A MAC has moved from `previous` to `vport`. True if it is an agent that restarted, and `previous` follows it.
  bool FollowsRestart(VPortId vport, VPortId previous);

 private:
  // What the directory answered for a peer in one of its generations, and where its datagrams came from last.
  struct Known {
    VPortId vport;
    uint64_t generation;
    Lid slid;
    absl::Time reported = absl::InfinitePast();  // when control last heard of another LID
  };

  VPortId Introduce(const Datagram& datagram, const FdbKey& source, uint64_t generation);
  VPortId Make(const Datagram& datagram, const FdbKey& source);
  void NotePath(const Datagram& datagram, Known* peer);
  bool Readdress(VPortId vport, const PeerAddress& peer);

  Fdb* const fdb_;
  VPortDirectory* const directory_;
  PuntQueue* const punts_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  absl::flat_hash_map<PeerAddress, Known> known_;
  uint32_t readdresses_ = 0;  // in the second from
  absl::Time readdresses_since_ = absl::InfinitePast();
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PEER_TRACKER_H_
