#include "control/ves/restored_entries.h"

namespace eoib {

void RestoredEntries::RemoveVPort(VPortId vport) {
  std::erase_if(sticky_, [vport](const auto& mac) { return mac.second == vport; });
}

void RestoredEntries::OnAddress() {
  if (settles_at_ == absl::InfiniteFuture()) settles_at_ = clock_->Now() + kSettle;
}

// An agent that restarted meanwhile has another queue pair at the same port. At another port it may
// be an impostor.
VPortId RestoredEntries::Take(const AgentId& agent, const PeerAddress& peer) {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return VPortId::None();
  const Agent restored = found->second;
  agents_.erase(found);
  // It had no MACs, and was reclaimed.
  if (!directory_->Peer(restored.vport).has_value()) return VPortId::None();
  if (restored.peer.gid == peer.gid) return restored.vport;
  fdb_->FlushLearned(restored.vport);
  return VPortId::None();
}

void RestoredEntries::Run() {
  if (!waits_ || clock_->Now() < settles_at_) return;
  waits_ = false;
  for (const auto& [agent, restored] : agents_) {
    if (directory_->Peer(restored.vport) == restored.peer) fdb_->FlushLearned(restored.vport);
  }
  agents_.clear();
  for (const auto& [key, vport] : sticky_)
    fdb_->Restore(key, vport, FdbOrigin::kLocalLearned, absl::ZeroDuration());
  sticky_.clear();
}

}  // namespace eoib
