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

// An agent says from an unknown port that it is `agent`. If the old addresses are silent and the new one answers, it has moved.
void SenderVerifier::Challenge(RemoteAgent* agent, const VPortMessage& message, const PeerAddress& source) {
  if (message.incarnation - agent->incarnation() > kLargestJump) {
    ++use_.counters->stale;
    return;
  }
  if (agent->challenge) {
    RemoteAgent::Challenge& challenge = *agent->challenge;
    challenge.answered |=
        source == challenge.peer && message.kind == VPortMessage::Kind::kAlive && message.token == challenge.token;
    return;
  }
  ++use_.counters->challenges;
  const absl::Time now = use_.clock->Now();
  agent->challenge =
      RemoteAgent::Challenge{message.incarnation, message.version, source, use_.random(), now + kChallenge, /*probe_at=*/now};
  use_.agents->Schedule(RunChallenge(agent));
}

RemoteAgent* SenderVerifier::RunChallenge(RemoteAgent* agent) {
  if (!agent->challenge) return agent;
  const RemoteAgent::Challenge challenge = *agent->challenge;
  const absl::Time now = use_.clock->Now();
  if (challenge.deadline <= now) {
    agent->challenge.reset();
    return challenge.answered ? Replace(*agent, challenge) : agent;
  }
  if (challenge.probe_at <= now) {
    agent->challenge->probe_at = now + kChallengeProbe;
    for (const auto& [peer, address] : agent->addresses()) {
      if (address.confirmed) probe_(peer, 0);
    }
    probe_(challenge.peer, challenge.token);
  }
  return agent;
}

// The MACs of the former agent flood until the new one has announced them.
RemoteAgent* SenderVerifier::Replace(const RemoteAgent& former, const RemoteAgent::Challenge& challenge) {
  const AgentId id = former.id();
  const absl::Time now = use_.clock->Now();
  use_.agents->Forget(id);
  RemoteAgent* const agent = use_.agents->Add(id, challenge.incarnation, now);
  use_.agents->Occupy(challenge.peer, agent);
  use_.agents->Change(agent, [&](std::vector<FdbKey>*) { return agent->Hear(challenge.peer, false, now); });
  agent->NoteVersion(challenge.version);
  agent->request_at = now;
  use_.announcer->NoteNewcomer(challenge.peer);
  return agent;
}

}  // namespace eoib
