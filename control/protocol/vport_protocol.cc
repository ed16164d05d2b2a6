#include "control/protocol/vport_protocol.h"

#include <algorithm>
#include <array>
#include <utility>

namespace eoib {
namespace {

// Hints a second, and in a burst, that a MAC is not here.
constexpr double kHintRate = 100, kHintBurst = 20;
// Messages that another agent has the id of the receiver, and Probes because of such messages.
constexpr double kHeldRate = 20, kHeldBurst = 20;
// The pauses after requests of a state that bring no progress; the last pause repeats. While the
// network loses 5 % of all copies, six requests are enough for all but one of a million agents.
constexpr std::array<absl::Duration, 7> kRequestPauses = {
    absl::Milliseconds(300), absl::Milliseconds(300), absl::Milliseconds(600), absl::Seconds(1),
    absl::Seconds(2),        absl::Seconds(4),        absl::Seconds(8)};
constexpr size_t kProbesKept = 1024;
constexpr size_t kMostAsked = 64;  // ports, in a poll

}  // namespace

VPortProtocol::VPortProtocol(const Options& options, ProtocolEvents* events, const Clock* clock,
                             RandomBits random)
    : host_(options.host),
      events_(events),
      clock_(clock),
      random_(std::move(random)),
      own_(options.id, options.incarnation, options.largest_message, options.last_version),
      claims_(&own_, events, clock,
              {.ask = [this](const AgentId& agent, FdbKey key) { Ask(agent, key); },
               .defend = [this](const AgentId& agent, FdbKey key) { Defend(agent, key); },
               .poll = [this](const std::vector<FdbKey>& keys) { Poll(keys); },
               .incarnation_of =
                   [this](const AgentId& id) {
                     const RemoteAgent* const agent = agents_.Find(id);
                     return agent == nullptr ? 0 : agent->incarnation();
                   }},
              &counters_),
      agents_(&claims_, events, clock),
      announcer_(
          &own_, events, clock, random_,
          [this](const PeerAddress& peer, const VPortMessage& message) { Send(peer, message); },
          &counters_),
      senders_({&own_, &agents_, &announcer_, clock, &counters_, events, random_},
               [this](const PeerAddress& peer, uint64_t token) {
                 VPortMessage probe = own_.Header(VPortMessage::Kind::kProbe);
                 probe.token = token;
                 Send(peer, probe);
               }),
      state_sender_(
          &own_, events, clock,
          [this](const PeerAddress& peer, const VPortMessage& message) { Send(peer, message); }),
      sweep_at_(clock->Now() + kSweep),
      hint_budget_(kHintRate, kHintBurst, clock->Now()),
      stranger_budget_(AddressProver::kRate, AddressProver::kBurst, clock->Now()),
      held_budget_(kHeldRate, kHeldBurst, clock->Now()) {
  own_.SetHost(host_, options.capabilities);
}

void VPortProtocol::Send(const PeerAddress& peer, const VPortMessage& message) {
  if (!own_.has_address() || peer == PeerAddress()) return;
  ++counters_.unicast_messages;
  events_->SendTo(peer, message.sender, EncodeVPortMessage(message));
}

void VPortProtocol::SetAddresses(const std::vector<AgentAddress>& addresses) {
  const bool is_back = !own_.has_address() && !addresses.empty();
  if (is_back) has_address_since_ = clock_->Now();
  own_.SetAddresses(addresses);
  if (is_back) claims_.OnAddress();
  announcer_.AnnounceAtOnce();
}

bool VPortProtocol::Claim(FdbKey key, uint16_t vport, bool sticky, uint32_t least) {
  const absl::optional<MacClaim> holder = claims_.Holder(key);
  if (!claims_.Claim(key, vport, sticky, least)) return false;
  if (holder && holder->agent != own_.id()) announcer_.AnnounceAtOnce();
  return true;
}

void VPortProtocol::RemoveVPort(uint16_t id) {
  for (const FdbKey key : own_.current().MacsOf(id)) claims_.Release(key);
  own_.RemoveVPort(id);
}

void VPortProtocol::Leave() {
  if (!own_.has_address()) return;
  VPortMessage message = own_.Header(VPortMessage::Kind::kWithdraw);
  message.leaves = true;
  announcer_.Multicast(message);
  announcer_.Multicast(message);  // nothing repeats it later
  own_.SetAddresses({});
  own_.NoteLeft();
}

void VPortProtocol::TakeIdentity(const AgentId& id, uint32_t incarnation) {
  const AgentId former = own_.id();
  own_.TakeIdentity(id, incarnation);
  claims_.TakeNewId(former);
  senders_.NoteNewId();
  announcer_.AnnounceAtOnce();
}

// Sending.

void VPortProtocol::Run() {
  const absl::Time now = clock_->Now();
  claims_.Run();
  for (const AgentId& id : agents_.Due(now)) {
    if (RemoteAgent* const agent = agents_.Find(id)) RunRemote(agent);
  }
  if (sweep_at_ <= now) Sweep();
  agents_.RunClaimUpdates();
  senders_.Run();
  announcer_.Run();
  state_sender_.Run();
}

absl::Time VPortProtocol::NextDeadline() const {
  return std::min({claims_.NextDeadline(), sweep_at_, agents_.NextDeadline(),
                   announcer_.NextDeadline(), state_sender_.NextDeadline(),
                   senders_.NextDeadline()});
}

// Forgets agents that are silent.
void VPortProtocol::Sweep() {
  const absl::Time now = clock_->Now();
  sweep_at_ = now + kSweep;
  std::vector<AgentId> silent;
  for (const auto& [id, agent] : agents_.agents()) {
    if (now - agent->heard() >= AgentTable::kForget) {
      silent.push_back(id);
    } else {
      CheckGroup(agent.get());
    }
  }
  for (const AgentId& id : silent) agents_.Forget(id);
  senders_.Sweep();
  absl::erase_if(probed_at_, [now](const auto& probe) { return now - probe.second > kSweep; });
}

// Probes an agent while it is in doubt whether its group messages reach us and ours reach it. It
// may be gone; else both sides tell each other what they hear.
void VPortProtocol::CheckGroup(RemoteAgent* agent) {
  if (!own_.receives_groups()) return;
  const absl::Time now = clock_->Now();
  agent->group.Judge(agent->heard(), has_address_since_, now);
  if (now < agent->check_at || !agent->group.IsInDoubt(has_address_since_, now)) return;
  agent->check_at = now + kDoubtEvery;
  Probe(agent->LastHeard(), agent);
}

void VPortProtocol::RunRemote(RemoteAgent* agent) {
  const absl::Time now = clock_->Now();
  std::vector<PeerAddress> probes;
  counters_.lost_addresses += agents_.Change(agent, [&](RemoteAgent::ViewChange*) {
    bool lost = false;
    probes = agent->TakeProbes(
        now, [&] { return senders_.MayVerify(*agent); }, &lost);
    return lost;
  });
  for (const PeerAddress& peer : probes) Probe(peer, agent);
  if (agent->IsChanging()) {
    agents_.Change(agent, [&](RemoteAgent::ViewChange* change) {
      agent->ContinueChange(change);
      return true;
    });
  }
  agent = senders_.RunDoubts(agent);
  if (agent == nullptr) return;
  if (agent->request_at <= now) Request(agent);
  agents_.Schedule(agent);
}

// Asks an agent whether it still has a MAC. Silence does not end a fixed claim, so it has the agent
// probed.
void VPortProtocol::Ask(const AgentId& agent, FdbKey key) {
  RemoteAgent* const holder = agents_.Find(agent);
  if (holder == nullptr) return;
  if (const absl::optional<MacClaim> claim = claims_.Of(key, agent); claim && claim->IsFixed())
    NoteSent(holder->LastHeard());
  VPortMessage request = own_.Header(VPortMessage::Kind::kRequest);
  request.wanted_macs = {key};
  Send(holder->LastHeard(), request);
}

void VPortProtocol::Defend(const AgentId& agent, FdbKey key) {
  const RemoteAgent* const rival = agents_.Find(agent);
  if (rival == nullptr || !hint_budget_.Take(clock_->Now())) return;
  VPortMessage reply = own_.Header(VPortMessage::Kind::kReply);
  reply.macs = {AgentView::ToAnnounced(key, own_.current().macs.at(key))};
  Send(rival->LastHeard(), reply);
}

// Asks an agent at each port, at most kMostAsked of them.
void VPortProtocol::Poll(const std::vector<FdbKey>& keys) {
  absl::flat_hash_map<Gid, PeerAddress> ports;
  for (const auto& [id, agent] : agents_.agents()) {
    const PeerAddress peer = agent->LastHeard();
    if (peer != PeerAddress() && ports.size() < kMostAsked) ports.try_emplace(peer.gid, peer);
  }
  VPortMessage request = own_.Header(VPortMessage::Kind::kRequest);
  request.wanted_macs = keys;
  for (const VPortMessage& piece : Split(std::move(request), own_.largest())) {
    for (const auto& [gid, peer] : ports) Send(peer, piece);
  }
}

void VPortProtocol::Request(RemoteAgent* agent) {
  agent->request_at = absl::InfiniteFuture();
  agent->awaits_announcement = false;
  if (!agent->IsBehind()) return;
  if (!agent->IsAssembling()) agent->request_token = random_();
  agent->request_at =
      clock_->Now() + kRequestPauses[std::min(agent->requests++, kRequestPauses.size() - 1)];
  VPortMessage request = own_.Header(VPortMessage::Kind::kRequest);
  agent->FillRequest(&request);
  Send(agent->LastHeard(), request);
}

void VPortProtocol::Probe(const PeerAddress& peer, RemoteAgent* agent) {
  VPortMessage probe = own_.Header(VPortMessage::Kind::kProbe);
  probe.token = random_();
  probe.group_heard = GroupHeard(*agent);
  agent->NoteProbe(peer, probe.token);
  if (probed_at_.size() < kProbesKept) probed_at_[probe.token] = clock_->Now();
  Send(peer, probe);
}

void VPortProtocol::Discover(const PeerAddress& peer) {
  if (AgentAt(peer) != nullptr) return;
  VPortMessage request = own_.Header(VPortMessage::Kind::kRequest);
  request.wants_full_state = true;
  Send(peer, request);
}

void VPortProtocol::TellNotBehind(FdbKey key, const PeerAddress& source) {
  if (AgentAt(source) == nullptr || !hint_budget_.Take(clock_->Now())) return;
  VPortMessage reply = own_.Header(VPortMessage::Kind::kReply);
  reply.gone_macs = {key};
  Send(source, reply);
}

// Reports of frames and of the subnet about agents.

void VPortProtocol::NoteHeard(const PeerAddress& peer) {
  RemoteAgent* const agent = agents_.At(peer);
  if (agent == nullptr) return;
  const absl::Time now = clock_->Now();
  if (agent->IsWaitingFor(peer) && agent->check_at <= now) {
    agent->check_at = now + kCheckEvery;
    Probe(peer, agent);
  }
  agents_.Change(agent, [&](RemoteAgent::ViewChange*) { return agent->Hear(peer, false, now); });
}

void VPortProtocol::NoteUnreachable(const PeerAddress& peer) {
  RemoteAgent* const agent = agents_.At(peer);
  if (agent == nullptr) return;
  agents_.Change(agent, [&](RemoteAgent::ViewChange*) {
    agent->MarkLost(peer);
    return true;
  });
}

void VPortProtocol::NoteSent(const PeerAddress& peer) {
  RemoteAgent* const agent = agents_.At(peer);
  if (agent == nullptr) return;
  agent->NoteSent(peer, clock_->Now());
  agents_.Schedule(agent);
}

}  // namespace eoib
