#include "vswitch/peer_tracker.h"

#include "absl/base/optimization.h"
#include "absl/types/optional.h"

namespace eoib {

VPortId PeerTracker::VPortOf(const Datagram& datagram, const FdbKey& source) {
  const uint64_t generation = directory_->generation();
  const auto known = known_.find(datagram.source());
  if (ABSL_PREDICT_FALSE(known == known_.end() || known->second.generation != generation)) {
    return Introduce(datagram, source, generation);
  }
  if (ABSL_PREDICT_FALSE(known->second.slid != datagram.slid)) NotePath(datagram, &known->second);
  directory_->NoteHeard(known->second.vport);
  return known->second.vport;
}

// Of a peer that was known in an earlier generation the path is still remembered: it may have changed since.
VPortId PeerTracker::Introduce(const Datagram& datagram, const FdbKey& source, uint64_t generation) {
  VPortId vport = directory_->Find(datagram.source());
  const bool found = !vport.IsNone();
  if (!found) vport = Make(datagram, source);
  if (vport.IsNone()) return vport;
  directory_->NoteHeard(vport);
  if (known_.size() >= kMostKnown) known_.clear();
  Known& known = known_.try_emplace(datagram.source(), Known{vport, generation, datagram.slid}).first->second;
  known.vport = vport;
  known.generation = generation;
  if (!found) known.slid = datagram.slid;  // which control is told with the peer
  if (known.slid != datagram.slid) NotePath(datagram, &known);
  return vport;
}

// The peer's datagrams come from another LID than before: its path changed. Reported once a second at most, because with
// several LIDs at a port (LMC) a peer may use them in turn.
void PeerTracker::NotePath(const Datagram& datagram, Known* peer) {
  const absl::Time now = clock_->Now();
  if (now - peer->reported < absl::Seconds(1)) return;
  peer->slid = datagram.slid;
  peer->reported = now;
  SendPunt({Punt::Kind::kReaddressed, peer->vport, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, {}}, punts_,
           counters_);
}

// The first frame of a peer. If its MAC is known behind another QPN of the same port, that agent restarted. Evidence is asked
// for, because two agents may share a port (and so a GID).
VPortId PeerTracker::Make(const Datagram& datagram, const FdbKey& source) {
  Punt punt{Punt::Kind::kNewPeer, {}, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, source};
  VPortId before = VPortId::None();
  fdb_->Find({&source, 1}, {&before, 1});
  if (directory_->AddressAt(before, datagram.sgid).has_value() && Readdress(before, datagram.source())) {
    punt.kind = Punt::Kind::kReaddressed;
    punt.vport = before;
  } else {
    bool created = false;
    punt.vport = directory_->Intern(datagram.source(), &created);
    if (punt.vport.IsNone() || !created) return punt.vport;
    counters_->new_peers.Add();
  }
  SendPunt(punt, punts_, counters_);
  return punt.vport;
}

// The directory refuses if `vport` was announced: then it is no restart that nobody spoke of.
bool PeerTracker::FollowsRestart(VPortId vport, VPortId previous) {
  const absl::optional<PeerAddress> now = directory_->Peer(vport);
  if (!now.has_value()) return false;
  const absl::optional<PeerAddress> before = directory_->AddressAt(previous, now->gid);
  return before.has_value() && before->qpn != now->qpn && Readdress(previous, *now);
}

bool PeerTracker::Readdress(VPortId vport, const PeerAddress& peer) {
  const absl::Time now = clock_->Now();
  if (now - readdresses_since_ >= absl::Seconds(1)) {
    readdresses_since_ = now;
    readdresses_ = 0;
  }
  if (++readdresses_ > kReaddressesPerSecond || !directory_->Readdress(vport, peer)) return false;
  counters_->readdressed_peers.Add();
  return true;
}

}  // namespace eoib
