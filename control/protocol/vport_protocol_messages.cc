// VPortProtocol: what a message does when it is received.
#include "control/protocol/vport_protocol.h"

namespace eoib {
namespace {

// Receivers that miss the same message do not all request it at the same moment.
constexpr absl::Duration kRequestSpread = absl::Milliseconds(100);
// The rest of a state or of missed changes is requested again when no more came for this long.
constexpr absl::Duration kQuiet = absl::Milliseconds(200);
// An agent that probes us for our proof answers us as a newcomer with its announcement, so its
// state need not be requested.
constexpr absl::Duration kAwaitAnnouncement = absl::Milliseconds(1200);
static_assert(kAwaitAnnouncement > GroupAnnouncer::kAnswerWithin);

}  // namespace

void VPortProtocol::Receive(absl::Span<const uint8_t> payload, const PeerAddress& source,
                            bool by_group, const PeerAddress& to) {
  ++counters_.received;
  const absl::StatusOr<VPortMessage> message = DecodeVPortMessage(payload);
  if (!message.ok()) {
    ++counters_.malformed;
    return;
  }
  if (message->sender != source) {
    ++counters_.wrong_sender;
    return;
  }
  RemoteAgent* const agent = senders_.SenderOf(*message, source, by_group);
  if (agent == nullptr) return HandleStranger(*message, source, to);
  NoteMessage(agent, source, by_group);
  for (const AddressProver::Kept& earlier : senders_.TakeEarlier())
    Handle(earlier.message, source, earlier.by_group, to, agent);
  Handle(*message, source, by_group, to, agent);
}

// A message that does not count, or not yet. Its Probe is answered, because the sender may want our
// proof. If another agent has its id, it is told, so that it takes a new one.
void VPortProtocol::HandleStranger(const VPortMessage& message, const PeerAddress& source,
                                   const PeerAddress& to) {
  if (message.kind == VPortMessage::Kind::kProbe) return AnswerProbe(message, source, to, nullptr);
  if (message.kind == VPortMessage::Kind::kAlive) return;  // it answers a Probe that told it
  if (const absl::optional<uint32_t> held = senders_.HeldBy(message, source))
    TellHeld(source, *held);
}

void VPortProtocol::TellHeld(const PeerAddress& peer, uint32_t incarnation) {
  if (!held_budget_.Take(clock_->Now())) return;
  VPortMessage probe = own_.Header(VPortMessage::Kind::kProbe);
  probe.token = random_();
  probe.id_held = incarnation;
  Send(peer, probe);
}

// `agent` says that another agent has our id. It counts in the answer to a Probe of ours, so that a
// forged source cannot say it.
void VPortProtocol::HandleHeld(const VPortMessage& message, const PeerAddress& source,
                               RemoteAgent* agent) {
  if (message.kind == VPortMessage::Kind::kAlive && probed_at_.contains(message.token)) {
    senders_.NoteHeld(*message.id_held, source);
  } else if (held_budget_.Take(clock_->Now())) {
    Probe(source, agent);
  }
}

void VPortProtocol::Handle(const VPortMessage& message, const PeerAddress& source, bool by_group,
                           const PeerAddress& to, RemoteAgent* agent) {
  if (message.leaves && message.kind == VPortMessage::Kind::kWithdraw)
    return senders_.NoteLeave(agent);
  senders_.NoteSpeaks(agent);
  if (message.id_held) HandleHeld(message, source, agent);
  agent->NoteVersion(message.version);
  switch (message.kind) {
    case VPortMessage::Kind::kAnnounce:
    case VPortMessage::Kind::kWithdraw:
      TakeChange(message, agent);
      break;
    case VPortMessage::Kind::kRequest:
      HandleRequest(message, source, by_group, agent);
      break;
    case VPortMessage::Kind::kReply:
      HandleReply(message, source, agent);
      break;
    case VPortMessage::Kind::kProbe:
      NoteGroupHeard(message, agent);
      AnswerProbe(message, source, to, agent);
      break;
    case VPortMessage::Kind::kAlive:
      HandleAlive(message, source, agent);
      break;
  }
  if (agent->IsBehind()) PlanRequest(message, by_group, agent);
  agents_.Schedule(agent);
}

// A message of `agent` came. If that refutes a challenger, which is not newer, the challenger is
// told.
void VPortProtocol::NoteMessage(RemoteAgent* agent, const PeerAddress& source, bool by_group) {
  const absl::optional<RemoteAgent::Challenge> challenge = agent->challenge;
  agents_.Change(agent, [&](RemoteAgent::ViewChange*) {
    return agent->Hear(source, by_group, clock_->Now());
  });
  if (challenge && !agent->challenge && challenge->incarnation <= agent->incarnation()) {
    TellHeld(challenge->peer, agent->incarnation());
  }
}

// Plans a request of the state that `message` showed to be later than what we know.
void VPortProtocol::PlanRequest(const VPortMessage& message, bool by_group, RemoteAgent* agent) {
  const bool is_probe =
      message.kind == VPortMessage::Kind::kProbe || message.kind == VPortMessage::Kind::kAlive;
  const bool may_wait = is_probe && agent->view().version == 0;
  if (agent->request_at != absl::InfiniteFuture() && (may_wait || !agent->awaits_announcement))
    return;
  agent->awaits_announcement = may_wait;
  const absl::Duration delay = may_wait   ? kAwaitAnnouncement
                               : by_group ? RandomTime(random_, kRequestSpread)
                                          : absl::Duration();
  agent->request_at = clock_->Now() + delay;
}

// Answers a sender that is not proven, too: it may want our proof. Then `agent` is null.
void VPortProtocol::AnswerProbe(const VPortMessage& probe, const PeerAddress& source,
                                const PeerAddress& to, const RemoteAgent* agent) {
  if (agent == nullptr && !stranger_budget_.Take(clock_->Now())) return;
  const absl::optional<uint32_t> held =
      agent == nullptr ? senders_.HeldBy(probe, source) : absl::nullopt;
  VPortMessage alive = own_.Header(VPortMessage::Kind::kAlive);
  if (own_.current().addresses.contains(to)) alive.sender = to;
  alive.token = probe.token;
  alive.id_held = held;
  if (agent != nullptr) alive.group_heard = GroupHeard(*agent);
  Send(source, alive);
}

void VPortProtocol::HandleRequest(const VPortMessage& message, const PeerAddress& source,
                                  bool by_group, RemoteAgent* agent) {
  if (message.wants_full_state) state_sender_.Answer(message, source, GroupHeard(*agent));
  if (message.wanted_macs.empty()) return;
  VPortMessage reply = own_.Header(VPortMessage::Kind::kReply);
  reply.token = message.token;
  for (const FdbKey key : message.wanted_macs) {
    const auto mac = own_.current().macs.find(key);
    if (mac != own_.current().macs.end()) {
      if (!mac->second.sticky && agent->questions.Take(clock_->Now())) events_->OnQuestioned(key);
      reply.macs.push_back(AgentView::ToAnnounced(key, mac->second));
    } else if (!by_group) {
      reply.gone_macs.push_back(key);
      // If the asker claims it, our answer is a vote.
      const absl::optional<MacClaim> claim = claims_.Of(key, agent->id());
      if (claim && claim->IsFixed() && claims_.Holder(key)->agent != agent->id())
        reply.held_macs.push_back(key);
    }
  }
  if (reply.macs.empty() && reply.gone_macs.empty()) return;
  for (const VPortMessage& piece : Split(std::move(reply), own_.largest())) Send(source, piece);
}

bool VPortProtocol::HasRoomFor(const VPortMessage& message, const RemoteAgent& agent) {
  const size_t bytes = BytesOf(message);
  if (bytes == 0 || agents_.HasRoomFor(bytes, agent.LastHeard().gid)) return true;
  ++counters_.refused_states;
  return false;
}

void VPortProtocol::TakeChange(const VPortMessage& message, RemoteAgent* agent) {
  if (!HasRoomFor(message, *agent)) return;
  if (!agents_.Change(
          agent, [&](RemoteAgent::ViewChange* change) { return agent->Apply(message, change); }))
    return;
  NoteProgress(agent);
}

void VPortProtocol::TakePart(const VPortMessage& message, RemoteAgent* agent) {
  if (!HasRoomFor(message, *agent)) return;
  RemoteAgent::Taken taken = RemoteAgent::Taken::kNothing;
  agents_.Change(agent, [&](RemoteAgent::ViewChange* change) {
    taken = agent->TakePart(message, change);
    return taken == RemoteAgent::Taken::kState;
  });
  if (taken == RemoteAgent::Taken::kNothing) return;
  NoteProgress(agent);
  if (taken != RemoteAgent::Taken::kState) return;
  ++counters_.full_states;
  if (agent->IsBehind()) agent->request_at = clock_->Now();  // the changes since its first part
}

void VPortProtocol::NoteProgress(RemoteAgent* agent) {
  agent->requests = 0;
  agent->request_at = agent->IsBehind() ? clock_->Now() + kQuiet : absl::InfiniteFuture();
}

void VPortProtocol::TakeVotes(const VPortMessage& reply, const Gid& port) {
  for (const FdbKey key : reply.gone_macs) claims_.OnVote(key, port, false);
  for (const FdbKey key : reply.held_macs) claims_.OnVote(key, port, true);
  for (const AnnouncedMac& mac : reply.macs) {
    if (!mac.sticky || mac.stage != ClaimStage::kEstablished) continue;
    claims_.OnVote(mac.key, port, true);
    claims_.OnHeldElsewhere(mac.key);
  }
}

void VPortProtocol::HandleReply(const VPortMessage& message, const PeerAddress& source,
                                RemoteAgent* agent) {
  NoteGroupHeard(message, agent);
  if (!message.ranges.empty()) return TakePart(message, agent);
  TakeVotes(message, source.gid);
  for (const AnnouncedMac& mac : message.macs) {
    claims_.OnAnswer(mac.key, agent->id(), true);
    // A claim that was given up, because the answer is late, counts again.
    if (!claims_.Of(mac.key, agent->id())) agents_.UpdateClaim(agent->id(), mac.key);
  }
  // A later version, which came first, may have the MAC.
  if (message.version < agent->view().version) return;
  for (const FdbKey key : message.gone_macs) {
    events_->OnNotBehind(key, agent->id());
    claims_.OnAnswer(key, agent->id(), false);
  }
}

void VPortProtocol::HandleAlive(const VPortMessage& message, const PeerAddress& source,
                                RemoteAgent* agent) {
  NoteGroupHeard(message, agent);
  senders_.TakeToken(message, source, agent);
  const auto probe = probed_at_.find(message.token);
  if (probe == probed_at_.end()) return;
  agent->NoteRoundTrip(clock_->Now() - probe->second);
  probed_at_.erase(probe);
}

void VPortProtocol::NoteGroupHeard(const VPortMessage& message, RemoteAgent* agent) {
  if (message.group_heard && own_.receives_groups()) {
    agent->group.Tell(*message.group_heard, has_address_since_, clock_->Now());
  }
}

uint32_t VPortProtocol::GroupHeard(const RemoteAgent& agent) const {
  if (!agent.group.heard()) return ~uint32_t{0};
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(clock_->Now() - *agent.group.heard()));
}

}  // namespace eoib
