// PeerTracker: finds the vPort of the peer that sent a datagram, and detects new, changed and restarted peers.
//
// A peer is an agent's queue pair: (GID, QPN). The tracker punts each new peer, and each peer whose path changed, to control.
// All addresses of an aggregate belong to one vPort, and each of them may restart.
//
// If a MAC that is known behind one queue pair of a port is heard from another one there, the agent may have restarted, or two
// agents share the port. The tracker follows at once, and takes that back if the former queue pair is heard again. README.md
// ("Agents that restart") has the rules.
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
  // The most restarts that are followed each second: at all ports, and at one. Each invalidates all cached vPorts of the
  // tracker. Beyond the limit a peer gets a vPort for each queue pair, and its MACs move one by one.
  static constexpr int kRestartsPerSecond = 64;
  static constexpr int kRestartsAtAPort = 32;

  PeerTracker(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts, const Clock* clock, ForwarderCounters* counters)
      : fdb_(fdb),
        directory_(directory),
        punts_(punts),
        clock_(clock),
        counters_(counters),
        restarts_(kRestartsPerSecond, kRestartsPerSecond, clock->Now()) {}

  // The most peers known at a time, and the most queue pairs of one port. The latter is as many as may live side by side at a
  // port, yet so few that a new queue pair seldom has the number of a dead one. Beyond it the one that was silent longest is
  // forgotten.
  static constexpr size_t kMostKnown = 65536;
  static constexpr size_t kMostAtAPort = 32;

  // The vPort of the peer that sent the datagram, which carries a frame from `source`. None if the directory has no room for
  // it.
  VPortId VPortOf(const Datagram& datagram, const FdbKey& source);
  // `source` is heard from `vport`, but not known there. Returns the vPort at which to learn it: `vport`, or, if the agent
  // restarted, its former vPort, which then leads to the new queue pair.
  VPortId Follow(VPortId vport, const FdbKey& source);
  // True if both vPorts lead to one queue pair now.
  bool AreOneAgents(VPortId vport, VPortId previous) const;

 private:
  // A peer: the vPort that the directory gave in some generation, and the last source LID.
  struct Known {
    explicit Known(absl::Time now) : path_reports(1, kPathReports, now) {}

    VPortId vport = VPortId::None();
    uint64_t generation = kAskAnew;
    Lid slid;
    TokenBucket path_reports;                    // limits reports of LID changes to control
    bool owed = false;                           // the punt for this peer is still to be sent: the queue was full
    // When it was first heard and when last, in a clock that counts arrivals of new peers.
    uint64_t first = 0, heard = 0;
    std::vector<VPortId> taken;  // its vPorts that were moved to another queue pair in a presumed restart
  };
  struct Port {
    explicit Port(absl::Time now) : restarts(kRestartsAtAPort, kRestartsAtAPort, now) {}

    std::vector<Qpn> known;  // the queue pairs in known_
    TokenBucket restarts;
  };
  // Changes of a peer's LID reported in a burst; after it one per second.
  static constexpr int kPathReports = 8;
  // A value that no generation of the directory has: forces a new lookup.
  static constexpr uint64_t kAskAnew = ~uint64_t{0};

  VPortId Introduce(const Datagram& datagram, const FdbKey& source, uint64_t generation);
  Known* Remember(const PeerAddress& peer, Lid slid);
  void Arrive(const PeerAddress& peer);
  void TakeBack(const PeerAddress& peer);
  VPortId Make(const Datagram& datagram, const FdbKey& source, Punt::Kind* news);
  void NotePath(const Datagram& datagram, Known* peer);
  Port& PortOf(const Gid& gid) { return ports_.try_emplace(gid, clock_->Now()).first->second; }
  bool MayHaveRestarted(const PeerAddress& former, const PeerAddress& peer) const;
  bool FollowTo(const PeerAddress& former, const PeerAddress& peer);

  Fdb* const fdb_;
  VPortDirectory* const directory_;
  PuntQueue* const punts_;
  const Clock* const clock_;
  ForwarderCounters* const counters_;
  absl::flat_hash_map<PeerAddress, Known> known_;
  absl::flat_hash_map<Gid, Port> ports_;  // of the peers in known_
  uint64_t arrivals_ = 0;
  TokenBucket restarts_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PEER_TRACKER_H_
