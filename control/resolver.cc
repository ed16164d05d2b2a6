#include "control/resolver.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "control/log.h"

namespace eoib {

Resolver::Resolver(SaClient* sa, AddressHandles* handles, VPortDirectory* directory, const Gid& own, PKey pkey,
                   std::function<void()> published)
    : sa_(sa), handles_(handles), directory_(directory), own_(own), pkey_(pkey), published_(std::move(published)) {}

Resolver::~Resolver() {
  *alive_ = false;
  for (auto& [vport, peer] : peers_) {
    if (!peer.ah.IsNone()) handles_->Put(peer.ah);
  }
}

void Resolver::OnPunt(const Punt& punt) {
  const bool heard = punt.kind == Punt::Kind::kNewPeer || punt.kind == Punt::Kind::kReaddressed;
  if (heard && (punt.slid.IsValid() || sa_ == nullptr)) {
    ++counters_.from_completions;
    Publish(punt.vport, {punt.peer.gid, punt.slid.value(), punt.sl}, {});
  }
  Query(punt.vport);
}

void Resolver::RefreshAll() {
  std::vector<VPortId> vports;
  for (const auto& [vport, peer] : peers_) vports.push_back(vport);
  for (VPortId vport : vports) Query(vport);
}

void Resolver::Query(VPortId vport) {
  const absl::optional<PeerAddress> address = directory_->Peer(vport);
  if (sa_ == nullptr || !address.has_value()) return;
  Peer& peer = peers_[vport];
  if (peer.asking) return;
  peer.asking = true;
  ++counters_.queries;
  sa_->QueryPath(own_, address->gid, pkey_,
                 [this, alive = alive_, vport, gid = address->gid](absl::StatusOr<PathRecord> answer) {
                   if (*alive) Answered(vport, gid, answer);
                 });
}

void Resolver::Answered(VPortId vport, const Gid& gid, const absl::StatusOr<PathRecord>& answer) {
  Peer& peer = peers_[vport];
  peer.asking = false;
  if (!answer.ok()) {
    ++counters_.failures;
    // A path that works (from a completion) is kept; a frame that waits in vain is counted where it waits.
    LogWarning(absl::StrCat("resolve path to ", gid.ToString(), ": ", answer.status().message()));
    return;
  }
  ++counters_.from_records;
  Publish(vport, {gid, answer->dlid.value(), answer->sl},
          {answer->traffic_class, answer->hop_limit, answer->flow_label, answer->rate});
}

void Resolver::Publish(VPortId vport, const PathKey& key, const PathAttributes& attributes) {
  const absl::StatusOr<AhIndex> ah = handles_->Get(key, attributes);
  if (!ah.ok()) {
    ++counters_.failures;
    LogWarning(absl::StrCat("make an address handle for ", key.dgid.ToString(), ": ", ah.status().message()));
    return;
  }
  Peer& peer = peers_[vport];
  directory_->SetAddressHandle(vport, *ah);
  if (!peer.ah.IsNone()) handles_->Put(peer.ah);  // after the new one is published
  peer.ah = *ah;
  published_();
}

}  // namespace eoib
