#include "control/protocol/sender_verifier.h"

#include <algorithm>
#include <utility>

namespace eoib {

RemoteAgent* SenderVerifier::SenderOf(const VPortMessage& message, const PeerAddress& source, bool by_group) {
  if (message.agent == use_.own->id()) {
    NoteOwnId(source);
    return nullptr;
  }
  RemoteAgent* const agent = use_.agents->Find(message.agent);
  if (agent == nullptr) return Meet(message, source, by_group);
  if (message.incarnation < agent->incarnation()) {
    ++use_.counters->stale;
    return nullptr;
  }
  if (!agent->MaySpeakFrom(source)) {
    Challenge(agent, message, source);
    return nullptr;
  }
  if (message.incarnation > agent->incarnation()) {
    use_.agents->Restart(agent, message.incarnation, source, use_.clock->Now());
    if (by_group) use_.announcer->NoteNewcomer(source);
    return agent;
  }
  if (!agent->addresses().contains(source)) {
    if (message.version < agent->newest_version()) {
      ++use_.counters->stale;
      return nullptr;
    }
    // It replaced its queue pair, and says so in this version or in one that we missed.
    use_.agents->ReplaceAddressesAt(source, agent);
  }
  use_.agents->Occupy(source, agent);
  return agent;
}

// From our own port it is a message of a former queue pair of ours, which was on its way.
void SenderVerifier::NoteOwnId(const PeerAddress& source) {
  const auto& own = use_.own->current().addresses;
  const bool is_ours =
      std::any_of(own.begin(), own.end(), [&](const auto& address) { return address.first.gid == source.gid; });
  if (is_ours) return;
  ++use_.counters->duplicate_id;
  use_.events->OnCopiedId(source);
}

// A message of an agent that we do not know.
RemoteAgent* SenderVerifier::Meet(const VPortMessage& message, const PeerAddress& source, bool by_group) {
  if (message.leaves || IsStale(message)) {
    ++use_.counters->stale;
    return nullptr;
  }
  if (use_.agents->IsFull()) {
    ++use_.counters->refused_agents;
    return nullptr;
  }
  RemoteAgent* const agent = use_.agents->Add(message.agent, message.incarnation, use_.clock->Now());
  use_.agents->Occupy(source, agent);
  if (by_group) use_.announcer->NoteNewcomer(source);
  return agent;
}

bool SenderVerifier::IsStale(const VPortMessage& message) const {
  const auto departed = departed_.find(message.agent);
  if (departed == departed_.end()) return false;
  return std::pair(message.incarnation, message.version) <= std::pair(departed->second.incarnation, departed->second.version);
}

void SenderVerifier::NoteDeparture(const VPortMessage& leave) {
  if (departed_.size() >= AgentTable::kMaxAgents) return;
  departed_[leave.agent] = {leave.incarnation, leave.version, use_.clock->Now() + AgentTable::kForget};
}

bool SenderVerifier::MayVerify(const RemoteAgent& agent) {
  int& sent = verified_[agent.LastHeard().gid];
  if (sent >= kMostAtPort || !verify_budget_.Take(use_.clock->Now())) return false;
  ++sent;
  return true;
}

void SenderVerifier::Sweep() {
  verified_.clear();
  const absl::Time now = use_.clock->Now();
  absl::erase_if(departed_, [now](const auto& departed) { return now >= departed.second.until; });
}

// An agent says from an unknown port that it is `agent`. Asks at the old addresses; if all of them are silent, it has moved.
void SenderVerifier::Challenge(RemoteAgent* agent, const VPortMessage& message, const PeerAddress& source) {
  if (agent->challenge) return;
  ++use_.counters->challenges;
  const absl::Time now = use_.clock->Now();
  agent->challenge = RemoteAgent::Challenge{message.incarnation, message.version, source, now + kChallenge, now};
  RunChallenge(agent);
  use_.agents->Schedule(agent);
}

void SenderVerifier::RunChallenge(RemoteAgent* agent) {
  if (!agent->challenge) return;
  const RemoteAgent::Challenge challenge = *agent->challenge;
  const absl::Time now = use_.clock->Now();
  if (challenge.deadline <= now) {
    use_.agents->Restart(agent, challenge.incarnation, challenge.peer, now);
    agent->Hear(challenge.peer, false, now);
    agent->NoteVersion(challenge.version);
    agent->request_at = now;
    use_.announcer->NoteNewcomer(challenge.peer);
  } else if (challenge.probe_at <= now) {
    agent->challenge->probe_at = now + kChallengeProbe;
    for (const auto& [peer, address] : agent->addresses()) {
      if (address.confirmed) probe_(peer);
    }
  }
}

}  // namespace eoib
