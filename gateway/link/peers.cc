#include "gateway/link/peers.h"

namespace eoib::ipoib {
namespace {

constexpr absl::Duration kPause = absl::Seconds(1);  // between two requests about one peer

}  // namespace

// A GRH proves that the datagram came from that GID, so the reversed completion is a path to it. A
// GID that the sender only claims needs a path record from the SA.
absl::optional<IpoibAddress> Peers::OnDatagram(const Datagram& datagram, IpoibType type,
                                               absl::Span<const uint8_t> payload) {
  const absl::optional<SourceTable::Source> source = Identify(datagram, type, payload);
  if (!source.has_value()) return absl::nullopt;
  bool created = false;
  Peer* const peer = Find(source->address, &created);
  if (peer == nullptr) return source->address;
  directory_->NoteHeard(peer->vport);
  if (source->by_grh) {
    NotePath(datagram, source->address, created, peer);
  } else if (created) {
    RequestPath(source->address, peer);
  }
  return source->address;
}

absl::optional<SourceTable::Source> Peers::Identify(const Datagram& datagram, IpoibType type,
                                                    absl::Span<const uint8_t> payload) {
  if (datagram.has_grh) {
    const IpoibAddress address(datagram.source_qpn, datagram.sgid);
    if (datagram.dgid.IsMulticast()) sources_.Learn(datagram.slid, address);
    return SourceTable::Source{address, true, {}};
  }
  if (const absl::optional<IpoibAddress> claimed = SenderOf(type, payload)) {
    sources_.LearnClaim(datagram.slid, datagram.source_qpn, *claimed);
  }
  return sources_.Find(datagram.slid, datagram.source_qpn);
}

// The completion is a path back (IBA 1.4 §11.2.2.5), good until the SA answers. A peer with several
// LIDs (LMC) may use them in turn, so control is told at most once a second.
void Peers::NotePath(const Datagram& datagram, const IpoibAddress& address, bool created,
                     Peer* peer) {
  if (peer->slid == datagram.slid) return;
  const absl::Time now = clock_->Now();
  if (now - peer->told < kPause) return;
  const Punt::Kind kind = created ? Punt::Kind::kNewPeer : Punt::Kind::kReaddressed;
  if (!PuntToLink(kind, *peer, address, datagram.slid, datagram.sl)) return;
  peer->slid = datagram.slid;
  peer->told = now;
}

void Peers::RequestPath(const IpoibAddress& address) {
  bool created = false;
  if (Peer* const peer = Find(address, &created)) RequestPath(address, peer);
}

void Peers::RequestPath(const IpoibAddress& address, Peer* peer) {
  const absl::Time now = clock_->Now();
  if (now - peer->requested_at < kPause) return;
  if (PuntToLink(Punt::Kind::kUnresolved, *peer, address, Lid(), Sl())) peer->requested_at = now;
}

VPortId Peers::VPortOf(const IpoibAddress& address) {
  bool created = false;
  const Peer* const peer = Find(address, &created);
  return peer == nullptr ? VPortId::None() : peer->vport;
}

// Null if the directory is full. *created: the vPort is new, and control does not know it yet.
Peers::Peer* Peers::Find(const IpoibAddress& address, bool* created) {
  const uint64_t generation = directory_->generation();
  const auto found = peers_.find(address);
  if (found != peers_.end() && found->second.generation == generation) return &found->second;
  const VPortId vport = directory_->Intern(address.peer(), created);
  if (vport.IsNone()) return nullptr;
  if (found == peers_.end() && peers_.size() >= kMostKnown) peers_.clear();
  Peer& peer = peers_[address];
  if (*created) peer = Peer();
  peer.vport = vport;
  peer.generation = generation;
  return &peer;
}

bool Peers::PuntToLink(Punt::Kind kind, const Peer& peer, const IpoibAddress& address, Lid slid,
                       Sl sl) {
  return requests_->Offer({LinkRequest::Kind::kPeer,
                           {kind, peer.vport, VPortId::None(), address.peer(), slid, sl, {}},
                           {}});
}

}  // namespace eoib::ipoib
