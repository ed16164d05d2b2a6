#include "vswitch/peer_tracker.h"

#include "absl/base/optimization.h"
#include "absl/types/optional.h"

namespace eoib {

VPortId PeerTracker::VPortOf(const Datagram& datagram, const FdbKey& source) {
  const uint64_t generation = directory_->generation();
  if (ABSL_PREDICT_FALSE(generation != generation_)) {
    known_.clear();
    generation_ = generation;
  }
  const auto known = known_.find(datagram.source());
  if (ABSL_PREDICT_TRUE(known != known_.end())) {
    if (ABSL_PREDICT_FALSE(known->second.slid != datagram.slid)) NotePath(datagram, &known->second);
    return known->second.vport;
  }
  const VPortId vport = Introduce(datagram, source);
  if (!vport.IsNone()) known_.insert_or_assign(datagram.source(), Known{vport, datagram.slid});
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
VPortId PeerTracker::Introduce(const Datagram& datagram, const FdbKey& source) {
  Punt punt{Punt::Kind::kNewPeer, {}, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, source};
  punt.vport = directory_->Find(datagram.source());
  if (!punt.vport.IsNone()) return punt.vport;
  VPortId before = VPortId::None();
  fdb_->Find({&source, 1}, {&before, 1});
  const absl::optional<PeerAddress> peer = directory_->Peer(before);
  if (peer.has_value() && peer->gid == datagram.sgid && Readdress(before, datagram.source())) {
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

bool PeerTracker::FollowsRestart(VPortId vport, VPortId previous) {
  const absl::optional<PeerAddress> now = directory_->Peer(vport);
  const absl::optional<PeerAddress> before = directory_->Peer(previous);
  if (!now.has_value() || !before.has_value() || now->gid != before->gid || now->qpn == before->qpn) return false;
  return Readdress(previous, *now);
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
