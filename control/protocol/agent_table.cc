#include "control/protocol/agent_table.h"

#include <algorithm>

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
  size_ -= agent->size();
  std::erase_if(by_address_, [&](const auto& address) { return address.second == id; });
  for (const auto& [key, mac] : agent->view().macs) claims_->RemoveRemote(key, id);
  events_->OnAgentGone(*agent);
}

void AgentTable::Occupy(const PeerAddress& peer, RemoteAgent* agent) {
  const auto [at, is_new] = by_address_.try_emplace(peer, agent->id());
  if (is_new) return MakeRoomAt(peer.gid, agent->id());
  if (at->second == agent->id()) return;
  RemoteAgent* const former = agents_.at(at->second).get();
  at->second = agent->id();
  TakeFrom(former, peer);
}

// What the agent lists does not keep it: it may list anything.
void AgentTable::TakeFrom(RemoteAgent* agent, const PeerAddress& peer) {
  const auto is_another = [&](const auto& address) { return address.first != peer && address.second.confirmed; };
  if (std::none_of(agent->addresses().begin(), agent->addresses().end(), is_another)) return Forget(agent->id());
  Change(agent, [&](std::vector<FdbKey>*) {
    agent->TakeAddress(peer);
    return true;
  });
}

void AgentTable::MakeRoomAt(const Gid& gid, const AgentId& keep) {
  std::set<AgentId> there;
  for (auto at = by_address_.lower_bound({gid, Qpn()}); at != by_address_.end() && at->first.gid == gid; ++at) {
    there.insert(at->second);
  }
  if (there.size() <= kMaxAtPort) return;
  there.erase(keep);
  const auto heard_before = [this](const AgentId& a, const AgentId& b) { return Find(a)->heard() < Find(b)->heard(); };
  Forget(AgentId(*std::min_element(there.begin(), there.end(), heard_before)));
}

void AgentTable::ReplaceAddressesAt(const PeerAddress& peer, RemoteAgent* agent) {
  Change(agent, [&](std::vector<FdbKey>*) {
    agent->ReplaceAddressesAt(peer);
    return true;
  });
}

void AgentTable::Restart(RemoteAgent* agent, uint32_t incarnation, const PeerAddress& peer, absl::Time now) {
  Change(agent, [&](std::vector<FdbKey>*) {
    agent->Restart(incarnation, peer, now);
    Occupy(peer, agent);
    return true;
  });
}

bool AgentTable::Change(RemoteAgent* agent, absl::FunctionRef<bool(std::vector<FdbKey>* keys)> change) {
  const bool was_reachable = agent->IsReachable();
  const std::map<PeerAddress, RemoteAgent::Address> before = agent->addresses();
  std::vector<FdbKey> keys;
  size_ -= agent->size();
  const bool changed = change(&keys);
  size_ += agent->size();
  if (!changed) return false;
  for (const auto& [peer, address] : before) {
    const auto at = by_address_.find(peer);
    if (at != by_address_.end() && at->second == agent->id() && !agent->addresses().contains(peer)) by_address_.erase(at);
  }
  UpdateClaims(*agent, keys);
  if (agent->IsReachable() != was_reachable) UpdateAllClaims(*agent);
  events_->OnAgent(*agent);
  return true;
}

void AgentTable::UpdateClaims(const RemoteAgent& agent, const std::vector<FdbKey>& keys) {
  for (const FdbKey key : keys) {
    const auto mac = agent.view().macs.find(key);
    if (mac != agent.view().macs.end() && agent.IsReachable()) {
      claims_->SetRemote(key, {agent.id(), mac->second.sequence, mac->second.sticky});
    } else {
      claims_->RemoveRemote(key, agent.id());
    }
  }
}

void AgentTable::UpdateAllClaims(const RemoteAgent& agent) {
  std::vector<FdbKey> keys;
  for (const auto& [key, mac] : agent.view().macs) keys.push_back(key);
  UpdateClaims(agent, keys);
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
  for (auto at = due_.begin(); at != due_.end() && at->first <= now; ++at) due.push_back(at->second);
  return due;
}

}  // namespace eoib
