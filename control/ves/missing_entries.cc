#include "control/ves/missing_entries.h"

namespace eoib {
namespace {

// The work of a slice, in MACs that are looked up. Another agent, or a MAC that is put back, costs
// as much as several.
constexpr size_t kSlice = 1024, kChunk = 256, kCostly = 16;

}  // namespace

void MissingEntries::Run() {
  const absl::Time now = clock_->Now();
  if (now < next_) return;
  for (size_t work = 0; work < kSlice; work += kCostly) {
    const auto& agents = protocol_->agents();
    const auto agent =
        after_.key ? agents.lower_bound(after_.agent) : agents.upper_bound(after_.agent);
    if (agent == agents.end()) {
      after_ = {};
      next_ = now + kEvery;
      return;
    }
    const std::map<FdbKey, AgentView::Mac>& macs = agent->second->view().macs;
    auto mac =
        after_.key && agent->first == after_.agent ? macs.upper_bound(*after_.key) : macs.begin();
    std::vector<FdbKey> keys;
    for (; mac != macs.end() && keys.size() < kChunk; ++mac) keys.push_back(mac->first);
    after_ = {agent->first, mac == macs.end() ? absl::nullopt : absl::make_optional(keys.back())};
    work += keys.size() + kCostly * PutBack(*agent->second, keys);
  }
  next_ = now + kPause;
}

// Returns how many were missing.
size_t MissingEntries::PutBack(const RemoteAgent& agent, const std::vector<FdbKey>& keys) {
  const VPortId vport = vport_of_(agent.id());
  if (vport.IsNone() || !agent.IsReachable()) return 0;
  std::vector<VPortId> found(keys.size(), VPortId::None());
  fdb_->Find(keys, absl::MakeSpan(found));
  size_t missing = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] == vport || !vlans_->Contains(keys[i].vid()) ||
        protocol_->own().current().macs.contains(keys[i]))
      continue;
    ++missing;
    const absl::optional<MacClaim> holder = protocol_->Holder(keys[i]);
    if (!holder || holder->agent != agent.id()) continue;
    const absl::optional<Fdb::Entry> entry = fdb_->Get(keys[i]);
    if (entry && entry->origin != FdbOrigin::kRemoteLearned) continue;
    if (fdb_->HasRoom(vport)) fdb_->Announce(keys[i], vport);
  }
  return missing;
}

}  // namespace eoib
