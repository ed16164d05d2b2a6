// VPortProtocol: what a message does when it is received.
#include "control/protocol/vport_protocol.h"

namespace eoib {
namespace {

// Receivers that miss the same message do not all request it at the same moment.
constexpr absl::Duration kRequestSpread = absl::Milliseconds(100);

}  // namespace

void VPortProtocol::Receive(absl::Span<const uint8_t> payload, const PeerAddress& source, bool by_group,
                            const PeerAddress& to) {
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
  if (agent == nullptr) return;
  agents_.Change(agent, [&](std::vector<FdbKey>*) { return agent->Hear(source, by_group, clock_->Now()); });
  Handle(*message, source, by_group, to, agent);
}

void VPortProtocol::Handle(const VPortMessage& message, const PeerAddress& source, bool by_group, const PeerAddress& to,
                           RemoteAgent* agent) {
  if (message.leaves && message.kind == VPortMessage::Kind::kWithdraw) {
    senders_.NoteDeparture(message);
    return agents_.Forget(agent->id());
  }
  agent->NoteVersion(message.version);
  switch (message.kind) {
    case VPortMessage::Kind::kAnnounce:
    case VPortMessage::Kind::kWithdraw:
      TakeState(message, agent);
      break;
    case VPortMessage::Kind::kRequest:
      HandleRequest(message, source, by_group, *agent);
      break;
    case VPortMessage::Kind::kReply:
      HandleReply(message, agent);
      break;
    case VPortMessage::Kind::kProbe:
      NoteGroupHeard(message, agent);
      AnswerProbe(message, source, to, *agent);
      break;
    case VPortMessage::Kind::kAlive:
      HandleAlive(message, agent);
      break;
  }
  if (agent->IsBehind() && agent->request_at == absl::InfiniteFuture()) {
    agent->request_at = clock_->Now() + (by_group ? RandomTime(random_, kRequestSpread) : absl::ZeroDuration());
  }
  agents_.Schedule(agent);
}

void VPortProtocol::AnswerProbe(const VPortMessage& probe, const PeerAddress& source, const PeerAddress& to,
                                const RemoteAgent& agent) {
  VPortMessage alive = own_.Header(VPortMessage::Kind::kAlive);
  if (own_.current().addresses.contains(to)) alive.sender = to;
  alive.token = probe.token;
  alive.group_heard = GroupHeard(agent);
  Send(source, alive);
}

void VPortProtocol::HandleRequest(const VPortMessage& message, const PeerAddress& source, bool by_group,
                                  const RemoteAgent& agent) {
  if (message.wants_full_state && reply_budget_.Take(clock_->Now())) {
    for (const VPortMessage& part : own_.FullState(message.token, GroupHeard(agent))) Send(source, part);
  }
  if (message.wanted_macs.empty()) return;
  VPortMessage reply = own_.Header(VPortMessage::Kind::kReply);
  reply.token = message.token;
  for (const FdbKey key : message.wanted_macs) {
    const auto mac = own_.current().macs.find(key);
    if (mac != own_.current().macs.end()) {
      events_->OnQuestioned(key);
      reply.macs.push_back({key, mac->second.vport, mac->second.sequence, mac->second.sticky});
    } else if (!by_group) {
      reply.gone_macs.push_back(key);
    }
  }
  if (reply.macs.empty() && reply.gone_macs.empty()) return;
  for (const VPortMessage& piece : Split(std::move(reply), own_.largest())) Send(source, piece);
}

// Takes a change of the agent's state, or a part of the whole. Returns whether its view changed.
bool VPortProtocol::TakeState(const VPortMessage& message, RemoteAgent* agent) {
  if (!agents_.HasRoomFor(SizeOf(message) + (message.part ? 1 : 0))) {
    ++counters_.refused_states;
    return false;
  }
  return agents_.Change(agent, [&](std::vector<FdbKey>* keys) {
    return message.part ? agent->TakePart(message, keys) : agent->Apply(message, keys);
  });
}

void VPortProtocol::HandleReply(const VPortMessage& message, RemoteAgent* agent) {
  NoteGroupHeard(message, agent);
  if (message.part) {
    if (!TakeState(message, agent)) return;
    ++counters_.full_states;
    agent->requests = 0;
    agent->request_at = absl::InfiniteFuture();
    return;
  }
  for (const AnnouncedMac& mac : message.macs) {
    claims_.OnAnswer(mac.key, agent->id(), true);
    // A claim that was given up, because the answer is late, counts again.
    if (!claims_.Of(mac.key, agent->id())) agents_.UpdateClaims(*agent, {mac.key});
  }
  // A later version, which came first, may have the MAC.
  if (message.version < agent->view().version) return;
  for (const FdbKey key : message.gone_macs) {
    events_->OnNotBehind(key, agent->id());
    claims_.OnAnswer(key, agent->id(), false);
  }
}

void VPortProtocol::HandleAlive(const VPortMessage& message, RemoteAgent* agent) {
  NoteGroupHeard(message, agent);
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
