// PeerTracker: finds the vPort of the peer that sent a datagram, and punts new, changed and restarted peers to control.
//
// A peer is an agent's queue pair: (GID, QPN). If a MAC that is known behind one queue pair of an HCA port is heard from another
// one there, the agent may have restarted, or two agents share the port. The tracker presumes a restart, and undoes it if the
// former queue pair is heard again. README.md ("Agents that restart") has the rules.
#ifndef EOIB_VSWITCH_PEER_TRACKER_H_
#define EOIB_VSWITCH_PEER_TRACKER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/token_bucket.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder_counters.h"

namespace eoib {

// For the worker that owns the forwarder. The constructor's arguments outlive it.
class PeerTracker {
 public:
  // The most restarts that are followed each second: in total, and of agents at one HCA port. Each restart invalidates all
  // cached vPorts. Beyond the limit a peer gets a vPort for each queue pair, and its MACs move one by one.
  static constexpr int kRestartsPerSecond = 64;
  static constexpr int kRestartsPerSecondOfPort = 32;

  PeerTracker(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts, const Clock* clock, ForwarderCounters* counters)
      : fdb_(fdb),
        directory_(directory),
        punts_(punts),
        clock_(clock),
        counters_(counters),
        restart_limit_(kRestartsPerSecond, kRestartsPerSecond, clock->Now()) {}

  // The most peers known at a time, and the most queue pairs of one HCA port. The latter is as many as may live side by side,
  // yet so few that a new queue pair seldom has the number of a dead one. Beyond it the one that was silent longest is removed.
  static constexpr size_t kMaxPeers = 65536;
  static constexpr size_t kMaxPeersOfPort = 32;

  // The vPort of the peer that sent the datagram, which carries a frame from `source`. None if the directory has no room for
  // it.
  VPortId VPortOf(const Datagram& datagram, const FdbKey& source);
  // `source` is heard from `vport`, but not known there. Returns the vPort at which to learn it: `vport`, or, if the agent
  // restarted, its former vPort, which then leads to the new queue pair.
  VPortId Follow(VPortId vport, const FdbKey& source);
  // True if both vPorts lead to one queue pair now.
  bool LeadToSamePeer(VPortId vport, VPortId previous) const;

 private:
  // A peer: the vPort that the directory gave in some generation, and the last source LID.
  struct KnownPeer {
    explicit KnownPeer(absl::Time now) : lid_change_punts(1, kLidChangeBurst, now) {}

    VPortId vport = VPortId::None();
    uint64_t generation = kNoGeneration;
    Lid slid;
    TokenBucket lid_change_punts;  // limits reports of LID changes to control
    bool punt_pending = false;     // the punt for this peer is still to be sent: the queue was full
    // When it was heard, as a value of arrivals_: order tells a restart from two live peers, time does not.
    uint64_t first_heard = 0, last_heard = 0;
    std::vector<VPortId> moved_vports;  // its vPorts that were moved to another queue pair in a presumed restart
  };
  // An HCA port, at which one or more peers are.
  struct Port {
    explicit Port(absl::Time now) : restart_limit(kRestartsPerSecondOfPort, kRestartsPerSecondOfPort, now) {}

    std::vector<Qpn> known;  // the queue pairs in known_
    TokenBucket restart_limit;
  };
  // Changes of a peer's LID reported in a burst; after it one per second.
  static constexpr int kLidChangeBurst = 8;
  // A value that no generation of the directory has: forces a new lookup.
  static constexpr uint64_t kNoGeneration = ~uint64_t{0};

  VPortId LookUp(const Datagram& datagram, const FdbKey& source, uint64_t generation);
  KnownPeer* FindOrAdd(const PeerAddress& peer, Lid slid);
  void AddToPort(const PeerAddress& peer);
  void UndoRestart(const PeerAddress& peer);
  VPortId CreateVPort(const Datagram& datagram, const FdbKey& source, Punt::Kind* punt_kind);
  void ReportLidChange(const Datagram& datagram, KnownPeer* peer);
  Port& PortOf(const Gid& gid) { return ports_.try_emplace(gid, clock_->Now()).first->second; }
  bool MayHaveRestarted(const PeerAddress& former, const PeerAddress& peer) const;
  bool MoveVPorts(const PeerAddress& former, const PeerAddress& peer);

  Fdb* const fdb_;
  VPortDirectory* const directory_;
  PuntQueue* const punts_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  absl::flat_hash_map<PeerAddress, KnownPeer> known_;
  absl::flat_hash_map<Gid, Port> ports_;  // of the peers in known_
  uint64_t arrivals_ = 0;                 // of new peers
  TokenBucket restart_limit_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PEER_TRACKER_H_
