#include "vswitch/peer_tracker.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/types/optional.h"

namespace eoib {

VPortId PeerTracker::VPortOf(const Datagram& datagram, const FdbKey& source) {
  const uint64_t generation = directory_->generation();
  const auto known = known_.find(datagram.source());
  if (ABSL_PREDICT_FALSE(known == known_.end() || known->second.generation != generation)) {
    return LookUp(datagram, source, generation);
  }
  if (ABSL_PREDICT_FALSE(known->second.slid != datagram.slid)) ReportLidChange(datagram, &known->second);
  directory_->NoteHeard(known->second.vport);
  return known->second.vport;
}

// The slow path of VPortOf: a new peer, or one from an earlier generation. The latter keeps its remembered LID, so a change
// since then is noticed. A peer whose punt was lost comes here with each frame until the punt is sent.
VPortId PeerTracker::LookUp(const Datagram& datagram, const FdbKey& source, uint64_t generation) {
  UndoRestart(datagram.source());
  Punt::Kind punt_kind = Punt::Kind::kNewPeer;
  VPortId vport = directory_->Find(datagram.source());
  const bool found = !vport.IsNone();
  if (!found) vport = CreateVPort(datagram, source, &punt_kind);
  if (vport.IsNone()) return vport;
  directory_->NoteHeard(vport);
  KnownPeer* const known = FindOrAdd(datagram.source(), datagram.slid);
  known->vport = vport;
  if (!found || known->punt_pending) {
    known->slid = datagram.slid;
    known->punt_pending = !SendPunt({punt_kind, vport, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, source},
                                    punts_, counters_);
  }
  known->generation = known->punt_pending ? kNoGeneration : generation;
  if (known->slid != datagram.slid) ReportLidChange(datagram, known);
  return vport;
}

// Returns the entry of `peer`, which was just heard. Adds it if it is new.
PeerTracker::KnownPeer* PeerTracker::FindOrAdd(const PeerAddress& peer, Lid slid) {
  // Start over: a bound, not a policy. All peers are then looked up again.
  if (known_.size() >= kMaxPeers) {
    known_.clear();
    ports_.clear();
  }
  if (!known_.contains(peer)) AddToPort(peer);
  const auto [known, is_new] = known_.try_emplace(peer, clock_->Now());
  if (is_new) {
    known->second.slid = slid;
    known->second.first_heard = arrivals_;
  }
  known->second.last_heard = arrivals_;
  return &known->second;
}

// Handles the first frame of a peer. Invalidates the cached vPorts of the others at its port, so that the next frame of each
// takes the slow path once and is noted as heard after this arrival.
void PeerTracker::AddToPort(const PeerAddress& peer) {
  ++arrivals_;
  std::vector<Qpn>& others = PortOf(peer.gid).known;
  if (others.size() >= kMaxPeersOfPort) {
    const auto heard = [&](Qpn qpn) { return known_.at({peer.gid, qpn}).last_heard; };
    const auto silent = std::min_element(others.begin(), others.end(), [&heard](Qpn a, Qpn b) { return heard(a) < heard(b); });
    known_.erase({peer.gid, *silent});
    others.erase(silent);
  }
  for (Qpn qpn : others) known_.at({peer.gid, qpn}).generation = kNoGeneration;
  others.push_back(peer.qpn);
}

// `peer` is heard. If MoveVPorts took it for dead, that was wrong: the newcomer is another agent. So `peer` gets its vPorts
// back. The MACs behind them may belong to either agent by now, so they are flushed and learned again.
// (This also covers a new queue pair with the number of an old one.)
void PeerTracker::UndoRestart(const PeerAddress& peer) {
  const auto known = known_.find(peer);
  if (known == known_.end()) return;
  for (VPortId vport : std::exchange(known->second.moved_vports, {})) {
    if (!directory_->Readdress(vport, peer)) continue;  // the vPort was removed
    fdb_->FlushLearned(vport);
    fdb_->FlushSticky(vport);
  }
}

// The peer's datagrams come from another LID than before, so its path changed. Rate-limited, because a port with several LIDs
// (LMC) may use them in turn.
void PeerTracker::ReportLidChange(const Datagram& datagram, KnownPeer* peer) {
  if (!peer->lid_change_punts.Take(clock_->Now())) return;
  if (SendPunt({Punt::Kind::kReaddressed, peer->vport, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, {}},
               punts_, counters_)) {
    peer->slid = datagram.slid;
  }
}

// Finds or makes a vPort for a peer that has none. If its MAC is known behind another QPN of the same port, that agent's vPort
// follows. Sets *punt_kind to the kind of punt.
VPortId PeerTracker::CreateVPort(const Datagram& datagram, const FdbKey& source, Punt::Kind* punt_kind) {
  VPortId before = VPortId::None();
  fdb_->Find({&source, 1}, {&before, 1});
  const absl::optional<PeerAddress> former = directory_->AddressAt(before, datagram.sgid);
  if (former.has_value() && MoveVPorts(*former, datagram.source())) {
    *punt_kind = Punt::Kind::kReaddressed;
    return directory_->Find(datagram.source());
  }
  bool created = false;
  const VPortId vport = directory_->Intern(datagram.source(), &created);
  if (created) counters_->new_peers.Add();
  return vport;
}

VPortId PeerTracker::Follow(VPortId vport, const FdbKey& source) {
  VPortId before = VPortId::None();
  fdb_->Find({&source, 1}, {&before, 1});
  if (before.IsNone() || before == vport) return vport;
  const absl::optional<PeerAddress> now = directory_->Peer(vport);
  if (!now.has_value()) return vport;
  const absl::optional<PeerAddress> former = directory_->AddressAt(before, now->gid);
  return former.has_value() && MoveVPorts(*former, *now) ? directory_->Find(*now) : vport;
}

bool PeerTracker::LeadToSamePeer(VPortId vport, VPortId previous) const {
  const absl::optional<PeerAddress> now = directory_->Peer(vport);
  return now.has_value() && directory_->AddressAt(previous, now->gid) == now;
}

// False if `former` was heard after `peer` was first heard: then both are alive.
bool PeerTracker::MayHaveRestarted(const PeerAddress& former, const PeerAddress& peer) const {
  const auto one = known_.find(former), other = known_.find(peer);
  return one == known_.end() || other == known_.end() || one->second.last_heard < other->second.first_heard;
}

// Makes all vPorts that lead to `former` lead to `peer`, if it may be the same agent. The directory refuses if `peer` belongs
// to another announced vPort.
bool PeerTracker::MoveVPorts(const PeerAddress& former, const PeerAddress& peer) {
  if (former == peer || !MayHaveRestarted(former, peer)) return false;
  const absl::Time now = clock_->Now();
  TokenBucket& port_limit = PortOf(peer.gid).restart_limit;
  if (!restart_limit_.Has(now) || !port_limit.Has(now)) return false;
  std::vector<VPortId> moved = directory_->LeadingTo(former);
  std::reverse(moved.begin(), moved.end());  // the last one readdressed owns `peer`; that must be the owner of `former`
  moved.erase(std::remove_if(moved.begin(), moved.end(), [&](VPortId vport) { return !directory_->Readdress(vport, peer); }),
              moved.end());
  if (moved.empty()) return false;
  restart_limit_.Take(now);
  port_limit.Take(now);
  counters_->readdressed_peers.Add();
  if (const auto known = known_.find(former); known != known_.end()) known->second.moved_vports = std::move(moved);
  return true;
}

}  // namespace eoib
