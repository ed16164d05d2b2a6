#include "control/protocol/agent_table.h"

#include <algorithm>
#include <utility>

namespace eoib {

RemoteAgent* AgentTable::Find(const AgentId& id) const {
  const auto agent = agents_.find(id);
  return agent == agents_.end() ? nullptr : agent->second.get();
}

RemoteAgent* AgentTable::At(const PeerAddress& peer) const {
  const auto at = by_address_.find(peer);
  return at == by_address_.end() ? nullptr : agents_.at(at->second).get();
}

RemoteAgent* AgentTable::Add(const AgentId& id, uint32_t incarnation, absl::Time now) {
  auto& agent = agents_[id];
  agent = std::make_unique<RemoteAgent>(id, incarnation, now);
  return agent.get();
}

void AgentTable::Forget(const AgentId& id) {
  const auto at = agents_.find(id);
  const std::unique_ptr<RemoteAgent> agent = std::move(at->second);
  agents_.erase(at);
  due_.erase({agent->scheduled, id});
  bytes_ -= agent->bytes();
  for (const auto& [peer, address] : agent->addresses()) {
    const auto in_use = by_address_.find(peer);
    if (in_use != by_address_.end() && in_use->second == id) by_address_.erase(in_use);
  }
  UpdateFormerClaims(id, agent->TakeMacs());
  events_->OnAgentGone(*agent);
}

void AgentTable::Confirm(const PeerAddress& peer, RemoteAgent* agent, absl::Time now) {
  Occupy(peer, agent);
  Change(agent, [&](RemoteAgent::ViewChange*) { return agent->Confirm(peer, now); });
}

void AgentTable::Occupy(const PeerAddress& peer, RemoteAgent* agent) {
  const auto [at, is_new] = by_address_.try_emplace(peer, agent->id());
  if (is_new) return MakeRoomAt(peer.gid, agent->id());
  if (at->second == agent->id()) return;
  RemoteAgent* const former = agents_.at(at->second).get();
  at->second = agent->id();
  TakeFrom(former, peer);
}

// Listed addresses do not keep an agent: it may list any.
void AgentTable::TakeFrom(RemoteAgent* agent, const PeerAddress& peer) {
  const auto is_another = [&](const auto& address) {
    return address.first != peer && address.second.confirmed;
  };
  if (std::none_of(agent->addresses().begin(), agent->addresses().end(), is_another))
    return Forget(agent->id());
  Change(agent, [&](RemoteAgent::ViewChange*) {
    agent->TakeAddress(peer);
    return true;
  });
}

std::set<AgentId> AgentTable::AgentsAt(const Gid& port) const {
  std::set<AgentId> there;
  for (auto at = by_address_.lower_bound({port, Qpn()});
       at != by_address_.end() && at->first.gid == port; ++at) {
    there.insert(at->second);
  }
  return there;
}

void AgentTable::MakeRoomAt(const Gid& gid, const AgentId& keep) {
  std::set<AgentId> there = AgentsAt(gid);
  if (there.size() <= kMaxAtPort) return;
  there.erase(keep);
  const auto heard_before = [this](const AgentId& a, const AgentId& b) {
    return Find(a)->heard() < Find(b)->heard();
  };
  Forget(AgentId(*std::min_element(there.begin(), there.end(), heard_before)));
}

bool AgentTable::HasRoomFor(size_t bytes, const Gid& port) const {
  size_t at_port = bytes;
  for (const AgentId& id : AgentsAt(port)) at_port += Find(id)->bytes();
  return at_port <= kMaxBytesAtPort && bytes_ + bytes <= kMaxBytes;
}

void AgentTable::ReplaceAddressesAt(const PeerAddress& peer, RemoteAgent* agent) {
  Change(agent, [&](RemoteAgent::ViewChange*) {
    agent->ReplaceAddressesAt(peer);
    Occupy(peer, agent);
    return true;
  });
}

void AgentTable::Restart(RemoteAgent* agent, uint32_t incarnation, const PeerAddress& peer,
                         absl::Time now) {
  Change(agent, [&](RemoteAgent::ViewChange*) {
    agent->Restart(incarnation, peer, now);
    Occupy(peer, agent);
    return true;
  });
}

bool AgentTable::Change(RemoteAgent* agent,
                        absl::FunctionRef<bool(RemoteAgent::ViewChange* change)> change) {
  const bool was_reachable = agent->IsReachable();
  const std::map<PeerAddress, RemoteAgent::Address> before = agent->addresses();
  RemoteAgent::ViewChange changes;
  bytes_ -= agent->bytes();
  const bool changed = change(&changes);
  bytes_ += agent->bytes();
  if (!changed) return false;
  for (const auto& [peer, address] : before) {
    const auto at = by_address_.find(peer);
    if (at != by_address_.end() && at->second == agent->id() && !agent->addresses().contains(peer))
      by_address_.erase(at);
  }
  for (const FdbKey key : changes.macs) UpdateClaim(agent->id(), key);
  UpdateFormerClaims(agent->id(), std::move(changes.former));
  if (changes.replaces || agent->IsReachable() != was_reachable) UpdateAllClaims(*agent);
  events_->OnAgent(*agent);
  return true;
}

void AgentTable::UpdateClaim(const AgentId& agent, FdbKey key) {
  const RemoteAgent* const owner = Find(agent);
  if (owner != nullptr && owner->IsReachable()) {
    const auto mac = owner->view().macs.find(key);
    if (mac != owner->view().macs.end()) {
      return claims_->SetRemote(
          key, {agent, mac->second.sequence, mac->second.sticky, mac->second.stage});
    }
  }
  claims_->RemoveRemote(key, agent);
}

void AgentTable::UpdateFormerClaims(const AgentId& agent, AgentView::Macs macs) {
  if (macs.by_key.size() > ClaimUpdates::kSlice)
    return claim_updates_.AddFormer(agent, std::move(macs));
  for (const auto& [key, mac] : macs.by_key) UpdateClaim(agent, key);
}

void AgentTable::UpdateAllClaims(const RemoteAgent& agent) {
  if (agent.view().macs.size() > ClaimUpdates::kSlice)
    return claim_updates_.AddAll(agent.id(), clock_->Now());
  for (const auto& [key, mac] : agent.view().macs) UpdateClaim(agent.id(), key);
}

// The agent may have lost its FDB entries since its claim was told, so the claim is told again.
void AgentTable::RunClaimUpdates() {
  const auto view_of = [this](const AgentId& agent) -> const AgentView* {
    const RemoteAgent* const owner = Find(agent);
    return owner == nullptr ? nullptr : &owner->view();
  };
  claim_updates_.Run(clock_->Now(), view_of, [this](const AgentId& agent, FdbKey key) {
    UpdateClaim(agent, key);
    const absl::optional<MacClaim> holder = claims_->Holder(key);
    if (holder && holder->agent == agent) events_->OnMac(key, *holder);
  });
}

void AgentTable::Schedule(RemoteAgent* agent) {
  const absl::Time next = agent->NextDeadline();
  if (next == agent->scheduled) return;
  due_.erase({agent->scheduled, agent->id()});
  if (next != absl::InfiniteFuture()) due_.emplace(next, agent->id());
  agent->scheduled = next;
}

std::vector<AgentId> AgentTable::Due(absl::Time now) const {
  std::vector<AgentId> due;
  for (auto at = due_.begin(); at != due_.end() && at->first <= now; ++at)
    due.push_back(at->second);
  return due;
}

}  // namespace eoib
