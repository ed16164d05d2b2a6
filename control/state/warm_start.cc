#include "control/state/warm_start.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fdb/fdb.h"
#include "fdb/vport_directory.h"
#include "vswitch/forwarder/forwarder.h"

namespace eoib {
namespace {

VPortId IdOf(const VPort& vport, Ves* ves) { return ves->forwarder()->ports()[vport.index].vport; }

// Nothing for a vPort that is gone.
absl::optional<SavedPlace> PlaceOf(VPortId vport, const Ves& ves) {
  SavedPlace place;
  const Route route = ves.directory().Get(vport);
  if (route.kind == Route::Kind::kLocal) {
    const auto at =
        std::find_if(ves.vports().begin(), ves.vports().end(),
                     [&route](const VPort& one) { return one.index == route.local_port; });
    if (at == ves.vports().end()) return absl::nullopt;
    place.vport = at->config.name;
    return place;
  }
  const absl::optional<PeerAddress> peer = ves.directory().Peer(vport);
  if (!peer.has_value()) return absl::nullopt;
  place.peer = *peer;
  if (const RemoteAgent* const agent = ves.protocol().AgentBehind(vport)) place.agent = agent->id();
  return place;
}

// Restores the entries of one place.
class Restorer {
 public:
  Restorer(absl::Duration away, Ves* ves) : away_(away), ves_(ves) {
    for (const VPort& vport : ves->vports()) own_.insert(vport.port->mac());
  }

  size_t Restore(const SavedPlace& place) {
    return place.vport.empty() ? RestorePeer(place) : RestoreVPort(place);
  }

 private:
  size_t RestoreVPort(const SavedPlace& place) {
    const auto vport =
        std::find_if(ves_->vports().begin(), ves_->vports().end(),
                     [&place](const VPort& one) { return one.config.name == place.vport; });
    if (vport == ves_->vports().end()) return 0;
    ves_->forwarder()->NoteStations(vport->index);
    size_t restored = 0;
    for (const SavedMac& mac : place.macs) {
      bool strip;
      if (!vport->config.vlan.Egress(mac.key.vid(), &strip) ||
          IsConfiguredElsewhere(mac, vport->port->mac()))
        continue;
      if (vport->config.sticky) {
        ves_->protocol()->restored()->AddSticky(mac.key, IdOf(*vport, ves_));
      } else {
        restored += Add(mac, IdOf(*vport, ves_), FdbOrigin::kLocalLearned);
      }
    }
    return restored;
  }

  size_t RestorePeer(const SavedPlace& place) {
    const VPortId vport = ves_->directory()->Intern(place.peer);
    if (vport.IsNone()) return 0;
    if (place.agent.has_value())
      ves_->protocol()->restored()->AddAgent(*place.agent, vport, place.peer);
    size_t restored = 0;
    for (const SavedMac& mac : place.macs) {
      if (!IsConfiguredElsewhere(mac, MacAddr()))
        restored += Add(mac, vport, FdbOrigin::kRemoteLearned);
    }
    return restored;
  }

  // An interface may have got a MAC that was elsewhere before.
  bool IsConfiguredElsewhere(const SavedMac& mac, MacAddr here) const {
    return mac.key.mac() != here && own_.contains(mac.key.mac());
  }

  bool Add(const SavedMac& mac, VPortId vport, FdbOrigin origin) {
    const absl::Duration age = mac.age + away_, ageing = ves_->config().ageing;
    if (ageing != absl::ZeroDuration() && age >= ageing) return false;
    return ves_->config().vlans.Contains(mac.key.vid()) &&
           ves_->fdb()->Restore(mac.key, vport, origin, age);
  }

  const absl::Duration away_;
  Ves* const ves_;
  absl::flat_hash_set<MacAddr> own_;
};

}  // namespace

SavedVes CollectMacs(const Ves& ves, size_t most) {
  absl::flat_hash_map<VPortId, std::vector<SavedMac>> macs;
  ves.fdb().Visit([&](const Fdb::Entry& entry) {
    if (entry.origin == FdbOrigin::kStatic || entry.frozen || most == 0) return;
    --most;
    macs[entry.vport].push_back({entry.key, entry.age});
  });
  SavedVes saved{ves.config().name, ves.config().pkey, {}};
  for (auto& [vport, behind] : macs) {
    absl::optional<SavedPlace> place = PlaceOf(vport, ves);
    if (!place.has_value()) continue;
    place->macs = std::move(behind);
    saved.places.push_back(*std::move(place));
  }
  return saved;
}

size_t RestoreMacs(const SavedVes& saved, absl::Duration away, Ves* ves) {
  RestoredEntries* const unconfirmed = ves->protocol()->restored();
  unconfirmed->Begin();
  if (!ves->config().announce) unconfirmed->OnAddress();  // no agent will tell anything
  Restorer restorer(away, ves);
  size_t restored = 0;
  for (const SavedPlace& place : saved.places) restored += restorer.Restore(place);
  return restored;
}

}  // namespace eoib
