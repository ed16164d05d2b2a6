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
    return Introduce(datagram, source, generation);
  }
  if (ABSL_PREDICT_FALSE(known->second.slid != datagram.slid)) NotePath(datagram, &known->second);
  directory_->NoteHeard(known->second.vport);
  return known->second.vport;
}

// Of a peer that was known in an earlier generation the path is still remembered: it may have changed since. A peer of which
// control could not be told comes here with each frame until it is.
VPortId PeerTracker::Introduce(const Datagram& datagram, const FdbKey& source, uint64_t generation) {
  TakeBack(datagram.source());
  Punt::Kind news = Punt::Kind::kNewPeer;
  VPortId vport = directory_->Find(datagram.source());
  const bool found = !vport.IsNone();
  if (!found) vport = Make(datagram, source, &news);
  if (vport.IsNone()) return vport;
  directory_->NoteHeard(vport);
  Known* const known = Remember(datagram.source(), datagram.slid);
  known->vport = vport;
  if (!found || known->owed) {
    known->slid = datagram.slid;
    known->owed =
        !SendPunt({news, vport, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, source}, punts_, counters_);
  }
  known->generation = known->owed ? kAskAnew : generation;
  if (known->slid != datagram.slid) NotePath(datagram, known);
  return vport;
}

// What is known of `peer`, which is heard.
PeerTracker::Known* PeerTracker::Remember(const PeerAddress& peer, Lid slid) {
  if (known_.size() >= kMostKnown) {
    known_.clear();
    ports_.clear();
  }
  if (!known_.contains(peer)) Arrive(peer);
  const auto [known, is_new] = known_.try_emplace(peer, clock_->Now());
  if (is_new) {
    known->second.slid = slid;
    known->second.first = arrivals_;
  }
  known->second.heard = arrivals_;
  return &known->second;
}

// The first frame of a peer. The others at its port are asked for anew, so that it is noticed, once, if they are heard since.
void PeerTracker::Arrive(const PeerAddress& peer) {
  ++arrivals_;
  std::vector<Qpn>& others = PortOf(peer.gid).known;
  if (others.size() >= kMostAtAPort) {
    const auto heard = [&](Qpn qpn) { return known_.at({peer.gid, qpn}).heard; };
    const auto silent = std::min_element(others.begin(), others.end(), [&heard](Qpn a, Qpn b) { return heard(a) < heard(b); });
    known_.erase({peer.gid, *silent});
    others.erase(silent);
  }
  for (Qpn qpn : others) known_.at({peer.gid, qpn}).generation = kAskAnew;
  others.push_back(peer.qpn);
}

// `peer` is heard. If it was taken for one that had restarted, it is another agent than the one that it was taken for. Its
// vPorts are its own again, but what is behind them may be either's by now: it is forgotten, floods, and is learned anew.
// (Also if a new queue pair has the number of an old one.)
void PeerTracker::TakeBack(const PeerAddress& peer) {
  const auto known = known_.find(peer);
  if (known == known_.end()) return;
  for (VPortId vport : std::exchange(known->second.taken, {})) {
    if (!directory_->Readdress(vport, peer)) continue;  // it is gone
    fdb_->FlushLearned(vport);
    fdb_->FlushSticky(vport);
  }
}

// The peer's datagrams come from another LID than before: its path changed. The reports are rate-limited, because with several LIDs
// at a port (LMC) a peer may use them in turn.
void PeerTracker::NotePath(const Datagram& datagram, Known* peer) {
  if (!peer->path_reports.Take(clock_->Now())) return;
  if (SendPunt({Punt::Kind::kReaddressed, peer->vport, VPortId::None(), datagram.source(), datagram.slid, datagram.sl, {}},
               punts_, counters_)) {
    peer->slid = datagram.slid;
  }
}

// The vPort of a peer that has none: if its MAC is known behind another QPN of the same port, that agent's. *news is what
// control is to be told.
VPortId PeerTracker::Make(const Datagram& datagram, const FdbKey& source, Punt::Kind* news) {
  VPortId before = VPortId::None();
  fdb_->Find({&source, 1}, {&before, 1});
  const absl::optional<PeerAddress> former = directory_->AddressAt(before, datagram.sgid);
  if (former.has_value() && FollowTo(*former, datagram.source())) {
    *news = Punt::Kind::kReaddressed;
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
  return former.has_value() && FollowTo(*former, *now) ? directory_->Find(*now) : vport;
}

bool PeerTracker::AreOneAgents(VPortId vport, VPortId previous) const {
  const absl::optional<PeerAddress> now = directory_->Peer(vport);
  return now.has_value() && directory_->AddressAt(previous, now->gid) == now;
}

// Not if `former` was heard since `peer` was first heard.
bool PeerTracker::MayHaveRestarted(const PeerAddress& former, const PeerAddress& peer) const {
  const auto one = known_.find(former), other = known_.find(peer);
  return one == known_.end() || other == known_.end() || one->second.heard < other->second.first;
}

// All that leads to `former` leads to `peer`, if it may be the same agent. The directory refuses if `peer` was announced: then
// it is no restart that nobody spoke of.
bool PeerTracker::FollowTo(const PeerAddress& former, const PeerAddress& peer) {
  if (former == peer || !MayHaveRestarted(former, peer)) return false;
  const absl::Time now = clock_->Now();
  TokenBucket& at_port = PortOf(peer.gid).restarts;
  if (!restarts_.Has(now) || !at_port.Has(now)) return false;
  std::vector<VPortId> taken = directory_->LeadingTo(former);
  std::reverse(taken.begin(), taken.end());  // so that `peer` stands for the one for which `former` stood
  taken.erase(std::remove_if(taken.begin(), taken.end(), [&](VPortId vport) { return !directory_->Readdress(vport, peer); }),
              taken.end());
  if (taken.empty()) return false;
  restarts_.Take(now);
  at_port.Take(now);
  counters_->readdressed_peers.Add();
  if (const auto known = known_.find(former); known != known_.end()) known->second.taken = std::move(taken);
  return true;
}

}  // namespace eoib
