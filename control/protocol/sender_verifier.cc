#include "control/protocol/sender_verifier.h"

#include <algorithm>
#include <utility>

namespace eoib {

RemoteAgent* SenderVerifier::SenderOf(const VPortMessage& message, const PeerAddress& source,
                                      bool by_group) {
  if (message.agent == use_.own->id()) {
    NoteOwnId(message, source);
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
  if (message.incarnation == agent->incarnation() && agent->addresses().contains(source))
    return agent;
  return HearNewAddress(message, source, by_group, agent);
}

// A message of a known agent, from a port where it has an address: it has started again, or
// replaced its queue pair. A late message of a former queue pair does not matter, because that
// returns no token.
RemoteAgent* SenderVerifier::HearNewAddress(const VPortMessage& message, const PeerAddress& source,
                                            bool by_group, RemoteAgent* agent) {
  const bool is_restart = message.incarnation > agent->incarnation();
  const absl::optional<bool> heard_in_group = Prove(message, source, by_group);
  if (!heard_in_group) return nullptr;
  if (is_restart) {
    use_.agents->Restart(agent, message.incarnation, source, use_.clock->Now());
  } else {
    use_.agents->ReplaceAddressesAt(source, agent);
  }
  if (*heard_in_group) agent->group.Hear(use_.clock->Now());
  if (*heard_in_group && is_restart) use_.announcer->NoteNewcomer(source);
  return agent;
}

// Returns whether the sender was heard in the group, if this message proves that it receives at
// `source`; else nothing.
absl::optional<bool> SenderVerifier::Prove(const VPortMessage& message, const PeerAddress& source,
                                           bool by_group) {
  if (!prover_.Hear(message, source, by_group, use_.agents->agents().size(), &earlier_))
    return absl::nullopt;
  std::erase_if(earlier_,
                [&](const auto& kept) { return kept.message.incarnation != message.incarnation; });
  return std::any_of(earlier_.begin(), earlier_.end(),
                     [](const auto& kept) { return kept.by_group; });
}

void SenderVerifier::TakeToken(const VPortMessage& alive, const PeerAddress& source,
                               RemoteAgent* agent) {
  if (agent->departure && agent->departure->token == alive.token &&
      agent->addresses().at(source).confirmed) {
    agent->departure.reset();
    ++use_.counters->untrue_leaves;
  }
  if (agent->IsProvenBy(source, alive.token))
    use_.agents->Confirm(source, agent, use_.clock->Now());
}

// From our own port it is a message of a former queue pair of ours, which was on its way. Else the
// two of us have copies of one state directory, or an impostor took our id while we were silent.
// One of the two takes a new id.
void SenderVerifier::NoteOwnId(const VPortMessage& message, const PeerAddress& source) {
  const auto& own = use_.own->current().addresses;
  const bool is_ours = std::any_of(
      own.begin(), own.end(), [&](const auto& address) { return address.first.gid == source.gid; });
  if (is_ours) return;
  ++use_.counters->duplicate_id;
  use_.events->OnCopiedId(source);
  const absl::Time now = use_.clock->Now();
  if (!use_.own->has_address() || now < new_id_at_ + kNewIdEvery) return;
  if (!copy_ || copy_->until <= now) {
    copy_ = Copy{source, use_.random(), now + kCopyProbe};
    return probe_(source, copy_->token);
  }
  const bool is_proven = source == copy_->peer && message.kind == VPortMessage::Kind::kAlive &&
                         message.token == copy_->token;
  if (is_proven && YieldsTo(message.incarnation, source)) use_.events->OnIdTaken(source);
}

// Exactly one of two agents with one id yields.
bool SenderVerifier::YieldsTo(uint32_t incarnation, const PeerAddress& peer) const {
  const uint32_t ours = use_.own->incarnation();
  if (incarnation == ours) return peer.gid < use_.own->sender().gid;
  return incarnation > ours && incarnation - ours <= kLargestJump;
}

absl::optional<uint32_t> SenderVerifier::HeldBy(const VPortMessage& message,
                                                const PeerAddress& source) const {
  const RemoteAgent* const agent = use_.agents->Find(message.agent);
  if (agent == nullptr || agent->MaySpeakFrom(source)) return absl::nullopt;
  const bool is_held = message.incarnation < agent->incarnation() ||
                       (message.incarnation == agent->incarnation() &&
                        use_.clock->Now() < agent->refuted() + kRefuted);
  return is_held ? absl::optional<uint32_t>(agent->incarnation()) : absl::nullopt;
}

void SenderVerifier::NoteHeld(uint32_t incarnation, const PeerAddress& source) {
  if (incarnation < use_.own->incarnation() || use_.clock->Now() < new_id_at_ + kNewIdEvery) return;
  use_.events->OnIdTaken(source);
}

void SenderVerifier::NoteNewId() {
  new_id_at_ = use_.clock->Now();
  copy_.reset();
}

// A message of an agent that we do not know. It is added once its sender is proven.
RemoteAgent* SenderVerifier::Meet(const VPortMessage& message, const PeerAddress& source,
                                  bool by_group) {
  if (message.leaves) {
    ++use_.counters->stale;
    return nullptr;
  }
  if (use_.agents->IsFull()) {
    ++use_.counters->refused_agents;
    return nullptr;
  }
  const absl::optional<bool> heard_in_group = Prove(message, source, by_group);
  if (!heard_in_group) return nullptr;
  RemoteAgent* const agent =
      use_.agents->Add(message.agent, message.incarnation, use_.clock->Now());
  use_.agents->Confirm(source, agent, use_.clock->Now());
  if (*heard_in_group) {
    agent->group.Hear(use_.clock->Now());
    use_.announcer->NoteNewcomer(source);
  }
  return agent;
}

bool SenderVerifier::MayVerify(const RemoteAgent& agent) {
  int& sent = verified_[agent.LastHeard().gid];
  if (sent >= kMostAtPort || !verify_budget_.Take(use_.clock->Now())) return false;
  ++sent;
  return true;
}

// An agent says from an unknown port that it is `agent`. If the old addresses are silent and the
// new one answers, it has moved.
void SenderVerifier::Challenge(RemoteAgent* agent, const VPortMessage& message,
                               const PeerAddress& source) {
  if (message.incarnation - agent->incarnation() > kLargestJump) {
    ++use_.counters->stale;
    return;
  }
  if (agent->challenge) {
    RemoteAgent::Challenge& challenge = *agent->challenge;
    challenge.answered |= source == challenge.peer && message.kind == VPortMessage::Kind::kAlive &&
                          message.token == challenge.token;
    return;
  }
  // It answers a Probe of a challenge that is over.
  if (message.kind == VPortMessage::Kind::kAlive) return;
  ++use_.counters->challenges;
  const absl::Time now = use_.clock->Now();
  agent->challenge =
      RemoteAgent::Challenge{message.incarnation, message.version,  source,
                             use_.random(),       now + kChallenge, /*probe_at=*/now};
  use_.agents->Schedule(RunChallenge(agent));
}

void SenderVerifier::NoteLeave(RemoteAgent* agent) {
  if (agent->departure) return;
  const absl::Time now = use_.clock->Now();
  agent->departure = RemoteAgent::Departure{use_.random(), now + kDeparture, /*probe_at=*/now};
  use_.agents->Schedule(agent);
}

RemoteAgent* SenderVerifier::RunDoubts(RemoteAgent* agent) {
  return RunDeparture(RunChallenge(agent));
}

// An agent that has left has no address, so it does not answer.
RemoteAgent* SenderVerifier::RunDeparture(RemoteAgent* agent) {
  if (!agent->departure) return agent;
  const absl::Time now = use_.clock->Now();
  if (agent->departure->deadline <= now) {
    const absl::optional<RemoteAgent::Challenge> challenge = agent->challenge;
    if (challenge && challenge->answered) return Replace(*agent, *challenge);
    use_.agents->Forget(AgentId(agent->id()));
    return nullptr;
  }
  if (agent->departure->probe_at <= now) {
    agent->departure->probe_at = now + kDepartureProbe;
    ProbeAddressesOf(*agent, agent->departure->token);
  }
  return agent;
}

void SenderVerifier::ProbeAddressesOf(const RemoteAgent& agent, uint64_t token) {
  for (const auto& [peer, address] : agent.addresses()) {
    if (address.confirmed) probe_(peer, token);
  }
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
    ProbeAddressesOf(*agent, 0);
    probe_(challenge.peer, challenge.token);
  }
  return agent;
}

// The MACs of the former agent flood until the new one has announced them.
RemoteAgent* SenderVerifier::Replace(const RemoteAgent& former,
                                     const RemoteAgent::Challenge& challenge) {
  const AgentId id = former.id();
  const absl::Time now = use_.clock->Now();
  use_.agents->Forget(id);
  RemoteAgent* const agent = use_.agents->Add(id, challenge.incarnation, now);
  use_.agents->Confirm(challenge.peer, agent, now);
  agent->Hear(challenge.peer, /*by_group=*/false, now);
  agent->NoteVersion(challenge.version);
  agent->request_at = now;
  use_.announcer->NoteNewcomer(challenge.peer);
  return agent;
}

}  // namespace eoib
