#include "control/ves/out_of_service.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib {

void OutOfService::OnInService(const Gid& gid) {
  gone_.erase(gid);
  use_.resolver->OnInService(gid);
}

void OutOfService::OnOutOfService(const Gid& gid) {
  use_.protocol->NoteTraffic();  // what was heard before the trap is no evidence
  gone_.try_emplace(gid, use_.clock->Now());
  use_.resolver->OnOutOfService(gid);
}

OutOfService::Ports OutOfService::TakeDue() {
  const absl::Time now = use_.clock->Now();
  Ports due;
  absl::erase_if(gone_, [now, &due](const auto& gone) {
    if (now < gone.second + kGoneForGood) return false;
    due.insert(gone);
    return true;
  });
  return due;
}

// The vPorts all of whose addresses are at `ports`.
OutOfService::Behind OutOfService::VPortsBehind(const Ports& ports) const {
  const auto is_gone = [&ports](const VPortAddress& address) {
    return ports.contains(address.peer.gid);
  };
  Behind behind;
  for (const VPortDirectory::Row& row : use_.directory->Dump()) {
    const std::vector<VPortAddress>& addresses = row.addresses;
    if (addresses.empty() || !std::all_of(addresses.begin(), addresses.end(), is_gone)) continue;
    behind.emplace(row.vport, addresses[0].peer.gid);
  }
  return behind;
}

// Handles all due ports in one pass over the directory and the FDB: a dead InfiniBand switch takes
// many ports with it.
void OutOfService::Run() {
  Ports due = TakeDue();
  if (due.empty()) return;
  const Behind behind = VPortsBehind(due);
  if (behind.empty()) return;
  for (const Gid& gid : HeardSince(due, behind)) {
    due.erase(gid);
    use_.resolver->OnInService(gid);
  }
  size_t forgotten = 0;
  for (const auto& [vport, gid] : behind) {
    if (!due.contains(gid)) continue;
    forgotten += use_.fdb->FlushLearned(vport) + use_.fdb->FlushSticky(vport);
    use_.protocol->NoteUnreachable(vport);
  }
  if (forgotten != 0) {
    LogInfo(absl::StrCat("VES ", ves_, ": ", due.size(), " ports are out of service; forgot ",
                         forgotten, " MACs"));
  }
}

// Returns those of `ports` that were heard after they went out of service. An agent has a time at
// which it was heard; a data-only peer is judged by the ages of its FDB entries. Ages are in whole
// ticks, so an entry may be up to one tick older than it says; in doubt it was heard before. Frozen
// entries are no evidence.
absl::flat_hash_set<Gid> OutOfService::HeardSince(const Ports& ports, const Behind& behind) const {
  absl::flat_hash_set<Gid> heard;
  for (const auto& [vport, gid] : behind) {
    const RemoteAgent* const agent = use_.protocol->AgentBehind(vport);
    if (agent != nullptr && agent->heard() > ports.at(gid)) heard.insert(gid);
  }
  const absl::Time now = use_.clock->Now();
  const absl::Duration tick = use_.fdb->tick();
  use_.fdb->Visit([&](const Fdb::Entry& entry) {
    const auto gid = behind.find(entry.vport);
    if (gid == behind.end() || entry.origin != FdbOrigin::kRemoteLearned || entry.frozen) return;
    if (now - entry.age - tick >= ports.at(gid->second)) heard.insert(gid->second);
  });
  return heard;
}

absl::Time OutOfService::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [gid, since] : gone_) next = std::min(next, since + kGoneForGood);
  return next;
}

}  // namespace eoib
