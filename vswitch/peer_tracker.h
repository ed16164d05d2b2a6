// PeerTracker: which vPort a datagram from the fabric came from, and what its coming tells of the peer.
//
// A peer is an agent's queue pair: (GID, QPN). Control hears of each new one, for its path, and of each whose path has changed.
// All addresses of an aggregate are one vPort's, and each of them may restart.
//
// Restarts. A MAC that is known behind one queue pair of a port and comes from another tells of an agent that restarted there:
// its former vPort is the same agent's, and with its address in the directory all that is behind it is reached where the agent
// is now. Or of two agents that share the port, between which a MAC has moved, or of which one borrows the other's. What tells
// them apart is order, not time: an agent may be back within milliseconds, but then its former queue pair is never heard again.
// So one that was heard since the new one was first heard is alive, and its MACs move one by one. At the new one's first frames
// nobody can know; then it is followed at once, because who restarted is to be reached at once, and if the former one is heard
// after all, that is taken back. By then it has been heard since, so a pair that lives is taken for a restart once at most.
#ifndef EOIB_VSWITCH_PEER_TRACKER_H_
#define EOIB_VSWITCH_PEER_TRACKER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "fdb/clock.h"
#include "fdb/fdb.h"
#include "fdb/token_bucket.h"
#include "fdb/vport_directory.h"
#include "vswitch/control_queues.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/forwarder_counters.h"

namespace eoib {

// Of the worker that owns the forwarder. What it is given outlives it.
class PeerTracker {
 public:
  // Agents that seem to have restarted, in any second, whose MACs are moved in one step: at all ports, and at one. Each makes
  // the tracker look anew for all that it knows. Beyond that a peer gets a vPort for each queue pair, and MACs move one by one.
  static constexpr int kRestartsPerSecond = 64;
  static constexpr int kRestartsAtAPort = 32;

  PeerTracker(Fdb* fdb, VPortDirectory* directory, PuntQueue* punts, const Clock* clock, ForwarderCounters* counters)
      : fdb_(fdb),
        directory_(directory),
        punts_(punts),
        clock_(clock),
        counters_(counters),
        restarts_(kRestartsPerSecond, kRestartsPerSecond, clock->Now()) {}

  // Peers that are known at a time, and queue pairs of one port: of these as many as live beside each other at a port, and few
  // enough that a new one seldom has the number of one that is dead. Of more the one that is silent for longest is forgotten.
  static constexpr size_t kMostKnown = 65536;
  static constexpr size_t kMostAtAPort = 32;

  // The vPort of the peer that sent the datagram, in which is a frame of `source`. None if the directory has no room for it.
  VPortId VPortOf(const Datagram& datagram, const FdbKey& source);
  // `source` is heard from `vport`, and not known there. Where it is to be learned: there, unless the vPort where it is known
  // is the same agent's, which restarted; that one has followed then, and stands for it.
  VPortId Follow(VPortId vport, const FdbKey& source);
  // Both vPorts lead to one queue pair now.
  bool AreOneAgents(VPortId vport, VPortId previous) const;

 private:
  // What the directory answered for a peer in one of its generations, and where its datagrams came from last.
  struct Known {
    explicit Known(absl::Time now) : path_reports(1, kPathReports, now) {}

    VPortId vport = VPortId::None();
    uint64_t generation = kAskAnew;
    Lid slid;
    TokenBucket path_reports;                    // to control, of another LID
    bool owed = false;                           // control's queue was full: it has not heard of this peer
    // When it was first heard, and when it was last known to be: as many arrivals of peers were before.
    uint64_t first = 0, heard = 0;
    std::vector<VPortId> taken;  // its vPorts, which followed what seemed to be its restart
  };
  struct Port {
    explicit Port(absl::Time now) : restarts(kRestartsAtAPort, kRestartsAtAPort, now) {}

    std::vector<Qpn> known;  // in known_
    TokenBucket restarts;
  };
  // Changes of a peer's LID reported in a burst; after it one per second.
  static constexpr int kPathReports = 8;
  // No generation of the directory's.
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
  absl::flat_hash_map<Gid, Port> ports_;  // of those
  uint64_t arrivals_ = 0;
  TokenBucket restarts_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PEER_TRACKER_H_
