#include "control/resolver.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/log.h"

namespace eoib {
namespace {

// Until a path that the SA did not give is asked for again.
constexpr absl::Duration kRetry = absl::Seconds(5);

}  // namespace

Resolver::Resolver(SaClient* sa, AddressHandles* handles, VPortDirectory* directory, const Clock* clock, const Gid& own,
                   PKey pkey, std::function<void()> published)
    : sa_(sa),
      handles_(handles),
      directory_(directory),
      clock_(clock),
      own_(own),
      pkey_(pkey),
      published_(std::move(published)),
      log_(clock, 10, absl::Seconds(6)) {}

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

void Resolver::Run() {
  const absl::Time now = clock_->Now();
  std::vector<VPortId> due;
  for (const auto& [vport, peer] : peers_) {
    if (peer.retry_at <= now) due.push_back(vport);
  }
  for (VPortId vport : due) Query(vport);
}

absl::Time Resolver::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [vport, peer] : peers_) next = std::min(next, peer.retry_at);
  return next;
}

void Resolver::Query(VPortId vport) {
  const absl::optional<PeerAddress> address = directory_->Peer(vport);
  if (sa_ == nullptr || !address.has_value()) return;
  Peer& peer = peers_[vport];
  if (peer.asking) {
    peer.again = true;
    return;
  }
  peer.asking = true;
  peer.again = false;
  peer.retry_at = absl::InfiniteFuture();
  ++counters_.queries;
  sa_->QueryPath(own_, address->gid, pkey_,
                 [this, alive = alive_, vport, gid = address->gid](absl::StatusOr<PathRecord> answer) {
                   if (*alive) Answered(vport, gid, answer);
                 });
}

void Resolver::Answered(VPortId vport, const Gid& gid, const absl::StatusOr<PathRecord>& answer) {
  Peer& peer = peers_[vport];
  peer.asking = false;
  if (peer.again) return Query(vport);  // the answer may be from before what made us ask again
  if (!answer.ok()) {
    ++counters_.failures;
    peer.retry_at = clock_->Now() + kRetry;
    // A path that works (from a completion) is kept; a frame that waits in vain is counted where it waits.
    if (log_.Allow()) LogWarning(absl::StrCat("resolve path to ", gid.ToString(), ": ", answer.status().message()));
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
    if (log_.Allow()) LogWarning(absl::StrCat("make an address handle for ", key.dgid.ToString(), ": ", ah.status().message()));
    return;
  }
  Peer& peer = peers_[vport];
  directory_->SetAddressHandle(vport, *ah);
  if (!peer.ah.IsNone()) handles_->Put(peer.ah);  // after the new one is published
  peer.ah = *ah;
  published_();
}

}  // namespace eoib
