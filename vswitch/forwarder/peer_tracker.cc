#include "vswitch/forwarder/peer_tracker.h"

#include <algorithm>

#include "absl/base/optimization.h"

namespace eoib {

VPortId PeerTracker::VPortOf(const Datagram& datagram) {
  const uint64_t generation = directory_->generation();
  const auto known = known_.find(datagram.source());
  if (ABSL_PREDICT_FALSE(known == known_.end() || known->second.generation != generation)) {
    return LookUp(datagram, generation);
  }
  if (ABSL_PREDICT_FALSE(known->second.slid != datagram.slid))
    ReportLidChange(datagram, &known->second);
  directory_->NoteHeard(known->second.vport);
  return known->second.vport;
}

// The slow path of VPortOf: a new peer, or one from an earlier generation. The latter keeps its
// remembered LID, so a change since then is noticed. A peer whose punt was lost comes here with
// each frame until the punt is sent.
VPortId PeerTracker::LookUp(const Datagram& datagram, uint64_t generation) {
  bool created = false;
  const VPortId vport = directory_->Intern(datagram.source(), &created);
  if (vport.IsNone()) return vport;
  if (created) counters_->new_peers.Add();
  KnownPeer* const known = FindOrAdd(datagram.source(), datagram.slid, generation);
  known->vport = vport;
  if (created || known->punt_pending) {
    known->slid = datagram.slid;
    known->punt_pending = !SendPunt({.kind = Punt::Kind::kNewPeer,
                                     .vport = vport,
                                     .peer = datagram.source(),
                                     .slid = datagram.slid,
                                     .sl = datagram.sl},
                                    punts_, counters_);
  }
  known->generation = known->punt_pending ? kNoGeneration : generation;
  if (known->slid != datagram.slid) ReportLidChange(datagram, known);
  return vport;
}

// Forgets the peers that were not heard in this generation of the directory; those that are still
// there are looked up again.
void PeerTracker::MakeRoom(uint64_t generation) {
  absl::erase_if(known_,
                 [generation](const auto& known) { return known.second.generation != generation; });
  if (known_.size() >= kMaxPeers) known_.clear();  // a bound, not a policy
  sweep_at_ = std::clamp(2 * known_.size(), kFewPeers, kMaxPeers);
}

// Returns the entry of `peer`, which was just heard. Adds it if it is new.
PeerTracker::KnownPeer* PeerTracker::FindOrAdd(const PeerAddress& peer, Lid slid,
                                               uint64_t generation) {
  if (known_.size() >= sweep_at_ && !known_.contains(peer)) MakeRoom(generation);
  const auto [known, is_new] = known_.try_emplace(peer, clock_->Now());
  if (is_new) {
    known->second.slid = slid;
    known->second.punt_pending = true;
  }
  return &known->second;
}

// The peer's datagrams come from another LID than before, so its path changed. Rate-limited,
// because a port with several LIDs (LMC) may use them in turn.
void PeerTracker::ReportLidChange(const Datagram& datagram, KnownPeer* peer) {
  if (!peer->lid_change_punts.Take(clock_->Now())) return;
  if (SendPunt({.kind = Punt::Kind::kReaddressed,
                .vport = peer->vport,
                .peer = datagram.source(),
                .slid = datagram.slid,
                .sl = datagram.sl},
               punts_, counters_)) {
    peer->slid = datagram.slid;
  }
}

}  // namespace eoib
