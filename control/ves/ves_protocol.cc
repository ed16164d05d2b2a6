#include "control/ves/ves_protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/ves/vport_announcement.h"
#include "vswitch/base/system_random.h"
#include "vswitch/wire/ethernet.h"

namespace eoib {
namespace {

// How often the agent looks which peers were heard and used.
constexpr absl::Duration kTrafficInterval = absl::Milliseconds(250);
constexpr size_t kTrafficAgents = 512;  // at a time
// A peer's message follows its first frame, so give it time to arrive.
constexpr absl::Duration kDiscoverAfter = absl::Milliseconds(200);
// Bytes of a message. A frame of the VES MTU has room for it, too.
constexpr size_t kLargestMessage = 1900;
static_assert(kLargestMessage <= ControlMessage::kMaxSize);
constexpr size_t kMaxUnknown = 4096;
// Flood lists that are published in a second, and at once. Changes beyond wait and are published
// together.
constexpr double kPublishRate = 20, kPublishBurst = 50;

std::vector<PeerAddress> ConfirmedAddresses(const RemoteAgent& agent) {
  std::vector<PeerAddress> confirmed;
  for (const auto& [peer, address] : agent.addresses()) {
    if (address.confirmed) confirmed.push_back(peer);
  }
  return confirmed;
}

std::string PlaceOf(const PeerAddress& peer) {
  return absl::StrCat("GID ", peer.gid.ToString(), " QPN ", peer.qpn.ToString());
}

VPortCapabilities ToCapabilities(const AgentCapabilities& announced) {
  VPortCapabilities capabilities;
  capabilities.header_form = announced.eoib_header ? HeaderForm::kEoib : HeaderForm::kAlternative;
  capabilities.segments = announced.segments;
  capabilities.mtu = announced.mtu;
  return capabilities;
}

}  // namespace

VesProtocol::VesProtocol(const AgentIdentity& identity, const std::string& host,
                         const Dependencies& dependencies)
    : fdb_(dependencies.fdb),
      directory_(dependencies.directory),
      resolver_(dependencies.resolver),
      injected_at_(dependencies.injected_at),
      retry_held_(dependencies.retry_held),
      on_id_taken_(dependencies.on_id_taken),
      vlans_(dependencies.vlans),
      journal_(dependencies.journal),
      clock_(dependencies.clock),
      engine_({identity.id, identity.incarnation, host, capabilities_, kLargestMessage,
               dependencies.last_version},
              this, clock_, SystemRandom),
      local_(&engine_, fdb_, clock_),
      restored_(fdb_, directory_, clock_),
      missing_(&engine_, fdb_, vlans_, clock_,
               [this](const AgentId& agent) { return VPortOf(agent); }),
      floods_(dependencies.floods),
      publications_(kPublishRate, kPublishBurst, clock_->Now()),
      copies_(clock_, /*burst=*/1, kCopyLogged),
      conflicts_(clock_, kConflictsAtOnce, kConflictLogged),
      traffic_at_(clock_->Now() + kTrafficInterval) {}

void VesProtocol::AddVPort(const VPort& vport, VPortId id) {
  const AnnouncedVPort announced = ToAnnounced(vport);
  engine_.SetVPort(announced);
  local_.AddVPort(id, announced.id, vport.config.sticky, ConfiguredMacs(vport));
}

void VesProtocol::RenameVPort(const VPort& vport) { engine_.SetVPort(ToAnnounced(vport)); }

void VesProtocol::RemoveVPort(const VPort& vport, VPortId id) {
  local_.RemoveVPort(id);
  restored_.RemoveVPort(id);
  engine_.RemoveVPort(ToAnnounced(vport).id);
}

void VesProtocol::SetAddresses(const std::vector<PeerAddress>& own, uint32_t mtu) {
  capabilities_.mtu = mtu;
  engine_.SetCapabilities(capabilities_);
  engine_.SetLargestMessage(std::min<size_t>(kLargestMessage, mtu - kEthernetHeaderSize));
  std::vector<AgentAddress> addresses;
  own_gids_.clear();
  for (const PeerAddress& address : own) {
    own_gids_.insert(address.gid);
    addresses.push_back({address, /*receives_groups=*/addresses.empty() && floods_ == nullptr});
  }
  if (!own.empty()) restored_.OnAddress();
  engine_.SetAddresses(addresses);
  engine_.Run();
}

void VesProtocol::SetAgents(const absl::optional<std::vector<Gid>>& listed) {
  listed_.reset();
  if (listed) listed_.emplace(listed->begin(), listed->end());
  std::vector<AgentId> unlisted;
  for (const auto& [id, agent] : engine_.agents()) {
    if (IsListed(*agent)) continue;
    unlisted.push_back(id);
    // It becomes known again at those of its ports that are listed.
    for (const auto& [peer, address] : agent->addresses()) DiscoverSoon(peer, absl::ZeroDuration());
  }
  for (const AgentId& id : unlisted) engine_.Forget(id);
  for (const VPortDirectory::Row& row : directory_->Dump()) {
    for (const VPortAddress& address : row.addresses) {
      if (engine_.AgentAt(address.peer) == nullptr)
        DiscoverSoon(address.peer, absl::ZeroDuration());
    }
  }
  engine_.Run();
}

// Whether the agent has an address at a listed port, and uses none elsewhere.
bool VesProtocol::IsListed(const RemoteAgent& agent) const {
  if (!listed_) return true;
  bool any = false, all = true;
  for (const auto& [peer, address] : agent.addresses()) {
    any |= IsListed(peer.gid);
    all &= !address.confirmed || IsListed(peer.gid);
  }
  return any && all;
}

void VesProtocol::TakeIdentity(const AgentIdentity& identity) {
  copy_.reset();
  engine_.TakeIdentity(identity.id, identity.incarnation);
}

void VesProtocol::Leave() { engine_.Leave(); }

// ---- From the worker ----------------------------------------------------------------------------

bool VesProtocol::Admits(const Gid& gid) {
  const bool listed = IsListed(gid);
  unlisted_messages_ += !listed;
  return listed;
}

void VesProtocol::OnMessage(const ControlMessage& message, const PeerAddress& to) {
  engine_.Receive({message.payload.data(), message.length}, message.peer, message.by_group, to);
  engine_.Run();
}

void VesProtocol::OnPunt(const Punt& punt) {
  switch (punt.kind) {
    case Punt::Kind::kNewPeer:
      return DiscoverSoon(punt.peer, kDiscoverAfter);
    case Punt::Kind::kMoved:
      return WatchMove(punt.previous, punt.vport);
    case Punt::Kind::kLocalLearned:
      local_.OnLearned(punt.key, punt.vport, /*moved=*/directory_->Peer(punt.previous).has_value());
      break;
    case Punt::Kind::kLocalHeard:
      OnHeardHere(punt);
      break;
    case Punt::Kind::kContested:
      local_.OnContested(punt.key);
      engine_.Contest(punt.key);
      // Perhaps its agent restarted, and the announcement was lost.
      if (const auto peer = directory_->Peer(punt.vport); peer && IsListed(peer->gid))
        engine_.Discover(*peer);
      break;
    case Punt::Kind::kNotBehind:
      if (!local_.Has(punt.key)) engine_.TellNotBehind(punt.key, punt.peer);
      break;
    case Punt::Kind::kPortDown:
      local_.OnPortDown();
      break;
    default:
      return;
  }
  engine_.Run();
}

// A station that another agent has announced spoke at our vPort. The claim moves it here.
void VesProtocol::OnHeardHere(const Punt& punt) {
  const auto is_here = [&] {
    const absl::optional<Fdb::Entry> entry = fdb_->Get(punt.key);
    return entry && entry->vport == punt.vport;
  };
  if (is_here()) return local_.OnHeard(punt.key, punt.vport);
  local_.OnHeard(punt.key, punt.vport);
  if (is_here()) journal_->LogMove(punt.key, punt.previous, punt.vport);
}

// A MAC moved between two queue pairs of one port. Perhaps an agent that announces nothing
// restarted: then the former one stays silent.
void VesProtocol::WatchMove(VPortId from, VPortId to) {
  if (by_vport_.contains(from) || left_.contains(from)) return;
  const absl::optional<PeerAddress> former = directory_->Peer(from), present = directory_->Peer(to);
  if (!former || !present || former->gid != present->gid) return;
  directory_->TakeTraffic(from);
  left_.emplace(from, clock_->Now());
}

void VesProtocol::FlushSilent() {
  const absl::Time now = clock_->Now();
  absl::erase_if(left_, [this, now](const auto& left) {
    const auto [vport, since] = left;
    if (now < since + kSilence) return false;
    if (!directory_->TakeTraffic(vport).heard) fdb_->FlushLearned(vport);
    return true;
  });
}

void VesProtocol::DiscoverSoon(const PeerAddress& peer, absl::Duration delay) {
  if (IsListed(peer.gid) && unknown_.size() < kMaxUnknown)
    unknown_.try_emplace(peer, clock_->Now() + delay);
}

void VesProtocol::DiscoverPeers() {
  const absl::Time now = clock_->Now();
  absl::erase_if(unknown_, [this, now](const auto& unknown) {
    if (now < unknown.second) return false;
    engine_.Discover(unknown.first);
    return true;
  });
}

void VesProtocol::PublishFloods() {
  if (floods_ == nullptr || !floods_changed_ || !publications_.Take(clock_->Now())) return;
  floods_changed_ = false;
  std::vector<FloodList::Entry> entries;
  for (auto& [id, peer] : peers_) {
    if (std::exchange(peer.vlans_changed, false))
      peer.vlans = VlansOf(engine_.agents().at(id)->view());
    entries.push_back({peer.vport, peer.vlans});
  }
  floods_->Publish(std::move(entries));
}

// The addresses of an agent are the queues of one process, so what is heard from one is a sign of
// life of all. With many agents, looks at some of them only, and goes on in the next run.
void VesProtocol::NoteTraffic() {
  std::vector<std::pair<VPortId, std::vector<PeerAddress>>> addresses_of;
  auto at = peers_.lower_bound(traffic_from_);
  for (size_t i = 0; i < kTrafficAgents && at != peers_.end(); ++i, ++at) {
    const RemoteAgent& agent = *engine_.agents().at(at->first);
    LogGroup(agent, &at->second);
    addresses_of.emplace_back(at->second.vport, ConfirmedAddresses(agent));
  }
  const bool is_done = at == peers_.end();
  traffic_from_ = is_done ? AgentId() : at->first;
  if (is_done) traffic_at_ = clock_->Now() + kTrafficInterval;
  for (const auto& [vport, addresses] : addresses_of) {
    const VPortDirectory::Traffic traffic = directory_->TakeTraffic(vport);
    for (const PeerAddress& address : addresses) {
      if (traffic.sent) engine_.NoteSent(address);
      if (traffic.heard) engine_.NoteHeard(address);
    }
  }
}

void VesProtocol::Restore() {
  for (const auto& [id, agent] : engine_.agents()) {
    for (const auto& [key, mac] : agent->view().macs) {
      const absl::optional<MacClaim> holder = engine_.Holder(key);
      if (holder && holder->agent == id && !local_.IsPinned(key)) OnMac(key, *holder);
    }
  }
}

void VesProtocol::Run(bool announces) {
  if (clock_->Now() >= traffic_at_) NoteTraffic();
  DiscoverPeers();
  FlushSilent();
  restored_.Run();
  missing_.Run();
  // No other agent hears this claim. It would end the freeze of a MAC on this host only.
  local_.Run(/*takes_unreported=*/announces && restored_.IsSettled());
  engine_.Run();
  PublishFloods();
}

absl::Time VesProtocol::NextDeadline() const {
  absl::Time next = std::min({engine_.NextDeadline(), local_.NextDeadline(),
                              restored_.NextDeadline(), missing_.NextDeadline()});
  if (floods_ != nullptr && floods_changed_) next = std::min(next, publications_.NextToken());
  if (!peers_.empty()) next = std::min(next, traffic_at_);
  for (const auto& [peer, at] : unknown_) next = std::min(next, at);
  for (const auto& [vport, since] : left_) next = std::min(next, since + kSilence);
  return next;
}

// ---- From the engine ----------------------------------------------------------------------------

void VesProtocol::SendTo(const PeerAddress& peer, const PeerAddress& from,
                         const std::vector<uint8_t>& payload) {
  VPortId vport = directory_->Find(peer);
  if (vport.IsNone()) vport = directory_->Intern(peer);
  if (vport.IsNone()) return;
  // A peer that was not heard yet may have no path. This message is lost then, and a later one
  // finds it.
  if (directory_->Get(vport).ah.IsNone())
    resolver_->OnPunt({.kind = Punt::Kind::kUnresolved, .vport = vport});
  Send(vport, from, payload);
}

// A message that finds the queue full is lost, as on the wire; the protocol repeats it.
void VesProtocol::Send(VPortId vport, const PeerAddress& from,
                       const std::vector<uint8_t>& payload) {
  ControlMessage message;
  message.vport = vport;
  message.length = static_cast<uint32_t>(payload.size());
  std::copy(payload.begin(), payload.end(), message.payload.begin());
  InjectQueue* const injected = injected_at_(from);
  if (injected->Push(message)) injected->Notify();
}

void VesProtocol::OnAgent(const RemoteAgent& agent) {
  const std::vector<PeerAddress> confirmed = ConfirmedAddresses(agent);
  if (confirmed.empty()) return RemovePeer(agent.id());
  Peer& peer = peers_[agent.id()];
  const Peer before = peer;
  if (peer.vport.IsNone()) peer.vport = VPortFor(agent, confirmed[0]);
  if (peer.vport.IsNone() || !Publish(agent, peer.vport)) {
    journal_->Warn(
        "agent",
        absl::StrCat(
            NameOf(agent),
            " is not used, because there is no room for it; its MACs are learned from traffic"));
    peers_.erase(agent.id());
    return;
  }
  by_vport_[peer.vport] = agent.id();
  floods_changed_ = peer.vlans_changed = true;
  peer.reachable = agent.IsReachable();
  if (before.reachable && !peer.reachable) fdb_->FlushLearned(peer.vport);
  if (agent.view().version == 0) return;  // its name and its MACs are still to come
  peer.incarnation = agent.incarnation();
  LogChange(agent, before);
}

VPortId VesProtocol::VPortFor(const RemoteAgent& agent, const PeerAddress& address) {
  const VPortId restored = restored_.Take(agent.id(), address);
  return restored.IsNone() ? directory_->Intern(address) : restored;
}

// Gives the directory the agent's addresses. False if it refuses them.
bool VesProtocol::Publish(const RemoteAgent& agent, VPortId vport) {
  std::vector<VPortAddress> addresses;
  for (const PeerAddress& address : ConfirmedAddresses(agent))
    addresses.push_back({.peer = address});
  if (!directory_->Announce(vport, addresses, ToCapabilities(agent.view().capabilities)))
    return false;
  bool resolved = true;
  for (const VPortAddress& address : directory_->Addresses(vport)) {
    const bool lost = agent.addresses().at(address.peer).lost;
    if (lost) directory_->SetLost(vport, address.peer, true);
    resolved &= !address.ah.IsNone();
  }
  // Also when resolved: the resolver has to know that this vPort uses the path.
  resolver_->OnPunt({.kind = Punt::Kind::kUnresolved, .vport = vport});
  if (resolved) retry_held_();
  return true;
}

void VesProtocol::LogChange(const RemoteAgent& agent, const Peer& before) {
  const char* change = nullptr;
  if (before.incarnation == 0) {
    change = "found";
  } else if (before.incarnation != agent.incarnation()) {
    change = "restarted";
  } else if (before.reachable != agent.IsReachable()) {
    change = before.reachable ? "does not answer; its MACs flood" : "answers again";
  }
  if (change == nullptr) return;
  const auto print = [](std::string* out, const PeerAddress& address) {
    absl::StrAppend(out, PlaceOf(address));
  };
  const std::string places = absl::StrJoin(ConfirmedAddresses(agent), " and ", print);
  journal_->Info("agent", absl::StrCat(NameOf(agent), " ", change, ", at ", places));
  // Without a group nothing makes the agents agree.
  const uint32_t mtu = agent.view().capabilities.mtu;
  if (floods_ == nullptr || before.incarnation == agent.incarnation() || mtu == capabilities_.mtu)
    return;
  journal_->Warn(
      "agent",
      absl::StrCat(NameOf(agent), " has the VES MTU ", mtu, ", and this one ", capabilities_.mtu,
                   ": larger frames between them are lost; set the same mtu on all hosts"));
}

// Only when it begins or ends. `show` and `peers` tell the present state.
void VesProtocol::LogGroup(const RemoteAgent& agent, Peer* peer) {
  const bool unheard = agent.group.IsMissing();
  if (std::exchange(peer->unheard, unheard) == unheard) return;
  if (!unheard)
    return journal_->Info("agent", absl::StrCat(NameOf(agent), ": group messages pass again"));
  const bool theirs = agent.group.theirs() == GroupWatch::Verdict::kMissing;
  journal_->Warn("agent", absl::StrCat(NameOf(agent),
                                       theirs ? ": its group messages are not heard"
                                              : " does not hear our group messages",
                                       "; ", kGroupAdvice));
}

void VesProtocol::OnAgentGone(const RemoteAgent& agent) {
  const bool silent = clock_->Now() - agent.heard() >= AgentTable::kForget;
  const char* why = " left";
  if (silent) {
    why = " is silent; forgotten";
  } else if (!IsListed(agent)) {
    why = " is at a port that `agents` does not list; forgotten";
  }
  if (peers_.contains(agent.id())) journal_->Info("agent", absl::StrCat(NameOf(agent), why));
  RemovePeer(agent.id());
}

void VesProtocol::RemovePeer(const AgentId& id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;
  const VPortId vport = peer->second.vport;
  by_vport_.erase(vport);
  peers_.erase(peer);
  floods_changed_ = true;
  fdb_->FlushLearned(vport);
  directory_->Remove(vport);
}

void VesProtocol::OnMac(FdbKey key, const MacClaim& claim) {
  const auto peer = peers_.find(claim.agent);
  if (peer == peers_.end() || !vlans_->Contains(key.vid())) return;
  const Fdb::LearnResult result = fdb_->Announce(key, peer->second.vport);
  // If there is no room, MissingEntries adds it later.
  if (result.what == Fdb::Learned::kMoved)
    journal_->LogMove(key, result.previous, peer->second.vport);
}

// If we claim it, the FDB's entry is about to become ours (LocalClaims::Take).
void VesProtocol::OnMacFree(FdbKey key) {
  const absl::optional<MacClaim> holder = engine_.Holder(key);
  if (!holder) fdb_->Withdraw(key);
}

void VesProtocol::OnClaimLost(FdbKey key, const MacClaim& winner, bool duplicate) {
  local_.OnLost(key);
  if (!duplicate) return;
  journal_->Warn(
      "duplicate",
      absl::StrCat("MAC ", key.mac().ToString(), " in VLAN ", key.vid().ToString(),
                   " is on this host and on ", NameOf(winner.agent),
                   ": two interfaces have this address, or there is a loop behind them"));
}

void VesProtocol::OnCopiedId(const PeerAddress& peer) {
  copy_ = Copy{peer, clock_->Now()};
  if (!copies_.Allow()) return;
  journal_->Warn("agent", absl::StrCat("another one, at ", PlaceOf(peer), ", has this agent's id; ",
                                       kCopyAdvice));
}

void VesProtocol::OnConflict(FdbKey key, const MacClaim& rival) {
  if (!conflicts_.Allow()) return;
  journal_->Warn("conflict",
                 absl::StrCat("MAC ", key.mac().ToString(), " in VLAN ", key.vid().ToString(),
                              " is configured on this host, and ", NameOf(rival.agent),
                              " claims it, too; ", kConflictAdvice));
}

void VesProtocol::OnConflictOver(FdbKey key) {
  if (!conflicts_.Allow()) return;
  journal_->Info("conflict",
                 absl::StrCat("MAC ", key.mac().ToString(), " in VLAN ", key.vid().ToString(),
                              " is claimed by this host only again"));
}

void VesProtocol::OnNotBehind(FdbKey key, const AgentId& agent) {
  const auto peer = peers_.find(agent);
  if (peer != peers_.end()) fdb_->FlushMac(key, peer->second.vport);
}

void VesProtocol::NoteUnreachable(VPortId vport) {
  const RemoteAgent* const agent = AgentBehind(vport);
  if (agent == nullptr) return;
  for (const PeerAddress& address : agent->InUse()) engine_.NoteUnreachable(address);
}

std::vector<FdbKey> VesProtocol::MacsBehind(const Gid& gid, const std::string& vport,
                                            const VlanSet& vlans) const {
  std::vector<FdbKey> keys;
  for (const auto& [id, agent] : engine_.agents()) {
    const AgentView& view = agent->view();
    const bool is_at =
        std::any_of(view.addresses.begin(), view.addresses.end(),
                    [&gid](const auto& address) { return address.first.gid == gid; });
    if (!is_at) continue;
    for (const auto& [key, mac] : view.macs) {
      const auto behind = view.vports.find(mac.vport);
      if (vlans.Contains(key.vid()) && behind != view.vports.end() && behind->second.name == vport)
        keys.push_back(key);
    }
  }
  return keys;
}

void VesProtocol::GiveUp(const VlanSet& vlans, VPortId vport) {
  std::vector<FdbKey> keys;
  fdb_->Visit([&](const Fdb::Entry& entry) {
    if (entry.vport == vport && vlans.Contains(entry.key.vid())) keys.push_back(entry.key);
  });
  for (const FdbKey key : keys) fdb_->FlushMac(key, vport);
  local_.OnPortDown();
}

// ---- For the operator ---------------------------------------------------------------------------

absl::optional<VesProtocol::Copy> VesProtocol::copy() const {
  if (!copy_ || clock_->Now() - copy_->heard >= kCopyKept) return absl::nullopt;
  return copy_;
}

std::vector<VesProtocol::Conflict> VesProtocol::Conflicts(size_t most) const {
  std::vector<FdbKey> keys;
  for (const auto& [key, rival] : engine_.conflicts()) keys.push_back(key);
  const size_t count = std::min(most, keys.size());
  std::partial_sort(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(count), keys.end());
  keys.resize(count);
  std::vector<Conflict> conflicts;
  const AgentView& own = engine_.own().current();
  for (const FdbKey key : keys) {
    const auto mac = own.macs.find(key);
    if (mac == own.macs.end()) continue;
    const AgentId& rival = engine_.conflicts().at(key).agent;
    const auto agent = engine_.agents().find(rival);
    const auto vport = own.vports.find(mac->second.vport);
    conflicts.push_back({key, vport == own.vports.end() ? "" : vport->second.name,
                         rival.ToShortString(),
                         agent == engine_.agents().end() ? "" : agent->second->view().host,
                         mac->second.stage != ClaimStage::kStandby});
  }
  return conflicts;
}

const RemoteAgent* VesProtocol::AgentBehind(VPortId vport) const {
  const auto at = by_vport_.find(vport);
  if (at == by_vport_.end()) return nullptr;
  // An agent that is being forgotten is in no table any more, while others that claim its MACs take
  // these over.
  const auto agent = engine_.agents().find(at->second);
  return agent == engine_.agents().end() ? nullptr : agent->second.get();
}

VPortId VesProtocol::VPortOf(const AgentId& agent) const {
  const auto peer = peers_.find(agent);
  return peer == peers_.end() ? VPortId::None() : peer->second.vport;
}

// Claims of an agent that was forgotten are updated a few at a time.
std::string VesProtocol::NameOf(const AgentId& id) const {
  const auto agent = engine_.agents().find(id);
  return agent == engine_.agents().end() ? id.ToShortString() : NameOf(*agent->second);
}

std::string VesProtocol::NameOf(const RemoteAgent& agent) {
  const std::string& host = agent.view().host;
  return absl::StrCat(host, host.empty() ? "" : " ", "(", agent.id().ToShortString(), ")");
}

std::string VesProtocol::HostOf(const RemoteAgent& agent) {
  const std::string& host = agent.view().host;
  return host.empty() ? agent.id().ToShortString() : host;
}

}  // namespace eoib
