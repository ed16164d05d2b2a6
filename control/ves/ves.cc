#include "control/ves/ves.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/check.h"
#include "vswitch/base/daemon/log.h"
#include "vswitch/base/system_random.h"
#include "vswitch/wire/mgid.h"
#include "vswitch/workers.h"

namespace eoib {
namespace {

constexpr absl::Duration kAgeInterval = absl::Seconds(1);
constexpr absl::Duration kReclaimInterval = absl::Seconds(10);
// A turn of RunPunts ends after this time, or this number of punts and messages. The loop's other
// work follows: commands, timers, the watchdog, other VESes. The queues of a VES share the time.
constexpr absl::Duration kTurn = absl::Milliseconds(2);
constexpr int kPuntsPerTurn = 256;
// How long to hold a frame for a new RoCE peer: longer than the kernel's neighbour discovery may
// take.
constexpr absl::Duration kHoldOnEthernet = absl::Seconds(3);

const char* StateName(VPortState state) {
  switch (state) {
    case VPortState::kLost:
      return "lost";
    case VPortState::kUnresolved:
      return "unresolved";
    case VPortState::kUp:
      return "up";
  }
  return "?";
}

// The MTU of the VES until the flood group's record gives it. A port that is down may not know its
// MTU; then assume 2048, the default for groups.
uint32_t MtuUntilJoined(const HcaPortInfo& port) {
  const bool is_known = MtuBytes(port.mtu) != 0;
  const int mtu = MtuBytes(is_known ? port.mtu : static_cast<uint8_t>(IbMtu::k2048));
  return static_cast<uint32_t>(mtu) - kEoibHeaderSize;
}

// The Ethernet source of an agent's messages: a locally administered address that captures show.
MacAddr MessageSource(const AgentId& id) {
  uint64_t bytes = 0x02;
  for (size_t i = 0; i < 5; ++i) bytes = bytes << 8 | id.bytes()[i];
  return MacAddr::FromUint64(bytes);
}

// The attributes are used on an Ethernet link layer only, where they are the configured ones.
PathResolver::Source PathSource(const FabricPort::Resources& fabric, const GroupParameters& group) {
  return {fabric.sa,
          fabric.maker,
          group.sl,
          {.traffic_class = group.traffic_class,
           .hop_limit = HopLimit(group, /*ethernet_link_layer=*/true)}};
}

}  // namespace

Ves::Ves(const VesConfig& config, const Context& context, const HcaPortInfo& port)
    : config_(config),
      context_(context),
      gid_(port.gid),
      fdb_(FdbOptionsOf(config), context.fabric.clock),
      journal_(config.name, &fdb_, &directory_, context.fabric.clock,
               [this](VPortId vport) { return Behind(vport); }),
      loops_(config.name, &fdb_, context.fabric.clock,
             [this](VPortId vport) { return Behind(vport); }),
      forwarding_(ForwardingOf(config, context, port, &floods_)),
      vports_(&config_, MtuUntilJoined(port)),
      queues_({config.name, config.pkey, QKeyOf(config), gid_, forwarding_}, context_.fabric, &fdb_,
              &directory_),
      next_age_(context.fabric.clock->Now() + kAgeInterval),
      next_reclaim_(context.fabric.clock->Now() + kReclaimInterval) {}

Forwarder::Options Ves::ForwardingOf(const VesConfig& config, const Context& context,
                                     const HcaPortInfo& port, FloodList* floods) {
  Forwarder::Options options;
  options.vlans = config.vlans;
  options.group_fwd_mask = config.group_fwd_mask;
  options.header_form = config.header;
  options.flood_mgid = FloodMgid(config.pkey);
  options.message_source = MessageSource(context.identity.id);
  options.flow_seed = SystemRandom();
  if (port.ethernet_link_layer) options.hold = kHoldOnEthernet;
  if (config.flood == FloodMode::kReplicate) options.floods = floods;
  return options;
}

absl::StatusOr<std::unique_ptr<Ves>> Ves::Create(const VesConfig& config, const Context& context) {
  const absl::StatusOr<HcaPortInfo> port = context.fabric.hca->QueryPort();
  if (!port.ok()) return port.status();
  auto ves = std::unique_ptr<Ves>(new Ves(config, context, *port));
  const absl::StatusOr<VesQueue*> first = ves->queues_.Add();
  if (!first.ok()) return first.status();
  ves->queues_.SetMtu(MtuUntilJoined(*port));
  Ves* self = ves.get();
  ves->announcer_ = std::make_unique<RarpAnnouncer>(&ves->config_.vlans, &ves->vports_.all(),
                                                    &(*first)->injected, context.fabric.clock);
  ves->resolver_ = std::make_unique<PathResolver>(
      PathSource(context.fabric, config.group), context.fabric.handles, &ves->directory_,
      context.fabric.clock, port->gid, config.pkey, [self] { self->queues_.RetryHeld(); });
  ves->protocol_ = std::make_unique<VesProtocol>(
      context.identity, context.host,
      VesProtocol::Dependencies{
          &ves->fdb_, &ves->directory_, ves->resolver_.get(),
          [self](const PeerAddress& own) { return self->queues_.InjectedAt(own); },
          [self] { self->queues_.RetryHeld(); }, &ves->journal_, context.fabric.clock,
          &ves->config_.vlans, ves->forwarding_.floods, context.last_version, context.on_id_taken});
  ves->protocol_->SetAgents(config.agents);
  ves->out_of_service_ = std::make_unique<OutOfService>(
      config.name, OutOfService::Dependencies{&ves->fdb_, &ves->directory_, ves->resolver_.get(),
                                              ves->protocol_.get(), context.fabric.clock});
  ves->MakeGroup(ves->forwarding_.flood_mgid);
  if (absl::Status status = ves->Rebuild(); !status.ok()) return status;
  while (ves->queues_.size() < ves->WantedQueues()) {
    if (absl::Status status = ves->AddQueue(); !status.ok()) return status;
  }
  return ves;
}

// Without a group its membership still brings the Q_Key, the MTU and the carrier, from the
// configuration.
void Ves::MakeGroup(const Mgid& mgid) {
  const FabricPort::Resources& fabric = context_.fabric;
  GroupMembership::Options options{mgid, config_.pkey, QKeyOf(config_), config_.group};
  options.without_group = replicates();
  if (replicates()) options.what = "VES without a group";
  group_ = std::make_unique<GroupMembership>(
      options, fabric.hca, replicates() ? nullptr : fabric.sa, fabric.handles, /*endpoint=*/nullptr,
      fabric.clock,
      [this](const absl::optional<GroupMembership::Joined>& joined) { OnGroup(joined); });
  if (!replicates()) return;
  discovery_ = std::make_unique<ServiceDiscovery>(
      ServiceDiscovery::Options{config_.name, config_.pkey, context_.identity.id}, fabric.sa,
      fabric.clock, SystemRandom,
      ServiceDiscovery::Protocol{
          [this](const PeerAddress& peer) { return protocol_->Knows(peer); },
          [this](const PeerAddress& peer) { protocol_->Ask(peer); },
          [this](const PeerAddress& peer) { return protocol_->IsListed(peer.gid); }});
}

// A flood list has one reader, and a peer that hears no announcement would take the queues for
// hosts between which MACs move.
size_t Ves::WantedQueues() const {
  if (config_.flood == FloodMode::kReplicate || !config_.announce) return 1;
  return std::clamp<size_t>(std::max(config_.queues, context_.workers), 1, VesQueues::kMost);
}

absl::Status Ves::AddQueue() {
  const absl::StatusOr<VesQueue*> added = queues_.Add();
  if (!added.ok()) return added.status();
  VesQueue* const queue = *added;
  queue->forwarder->SetMtu(forwarder()->mtu());
  queue->forwarder->SetAdmission(config_.vlans, config_.group_fwd_mask);
  queue->forwarder->SetFloodHandle(group_->joined().has_value() ? group_->joined()->ah
                                                                : AhIndex::None());
  if (has_queue_pair()) {
    if (absl::Status status = ReplaceQueuePair(queue); !status.ok()) {
      queues_.RemoveLast();
      return status;
    }
    queues_.TellQpns();
  }
  for (VPort& vport : vports_) queues_.AddToFurther(&vport);
  AnnounceAddress();
  return absl::OkStatus();
}

absl::Status Ves::ReplaceQueuePair(VesQueue* queue) {
  const bool is_first = queue == &queues_.first();
  absl::Status status = queue->queue_pair.Replace([this, queue, is_first](UdEndpoint* endpoint) {
    const PartitionQueuePair& pair = queue->queue_pair;
    queue->forwarder->Rebind(
        {endpoint, {pair.gid(), endpoint->qpn()}, !pair.pkey().IsFullMember()});
    if (!is_first) return;
    resolver_->SetOwn(pair.gid(), pair.pkey());
    group_->Rebind(endpoint, pair.pkey());
  });
  // The membership sets the Q_Key of the first one.
  if (status.ok() && !is_first && group_->joined().has_value())
    status = queue->queue_pair.get()->SetQKey(group_->joined()->qkey);
  return status;
}

void Ves::Start() {
  running_ = true;
  is_used_ = !vports_.empty();
  if (is_used_) group_->Join();
}

void Ves::Stop(std::function<void()> done) {
  running_ = false;
  if (!replicates()) return group_->Leave(std::move(done));
  discovery_->Leave([this, done = std::move(done)] { group_->Leave(done); });
}

Ves::~Ves() {
  discovery_.reset();
  group_.reset();
  out_of_service_.reset();
  protocol_.reset();
  resolver_.reset();
  queues_.Clear();
}

void Ves::Refresh(RefreshDepth depth) {
  if (vports_.empty()) return;  // no member of the group
  if (depth == RefreshDepth::kLight) {
    group_->Join();
  } else {
    announced_ = false;
    group_->Renew();
    // Announce now, with the present handle: the SA may take long to answer, and the peers lose
    // frames until they hear us.
    if (!announced_) AnnounceMacs();
  }
  resolver_->RefreshAll();
  if (discovery_ != nullptr) discovery_->Refresh();
}

void Ves::OnPortDown(absl::string_view why) {
  if (has_queue_pair()) group_->Lost(why);
}

absl::Status Ves::Rebuild() {
  // The worker is paused, so all users change together.
  absl::Status status;
  for (const auto& queue : queues_) {
    if (status.ok()) status = ReplaceQueuePair(queue.get());
  }
  if (!status.ok()) TakeDown(status.message());
  queues_.TellQpns();
  AnnounceAddress();
  // A missing P_Key is waited for, and is no error.
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void Ves::TakeDown(absl::string_view why) {
  if (group_->trouble() != why)
    LogWarning(absl::StrCat(why, "; VES ", config_.name, " stays down"));
  group_->Lost(why);
  group_->Rebind(nullptr, queue_pair().pkey());
  for (const auto& queue : queues_) {
    queue->forwarder->Rebind({nullptr, {}, !queue->queue_pair.pkey().IsFullMember()});
    queue->queue_pair.Drop();
  }
}

void Ves::OnNotice(SmTrap trap, const Gid& gid) {
  switch (trap) {
    case SmTrap::kGidInService:
      return out_of_service_->OnInService(gid);
    case SmTrap::kGidOutOfService:
      return out_of_service_->OnOutOfService(gid);
    case SmTrap::kGroupCreated:
      if (gid == group_->mgid().gid()) group_->OnCreated();
      return;
    case SmTrap::kGroupDeleted:
      if (gid == group_->mgid().gid()) group_->OnDeleted();
      return;
  }
}

void Ves::OnGroup(const absl::optional<GroupMembership::Joined>& joined) {
  queues_.FollowGroup(joined);
  if (vports_.carrier() != joined.has_value()) LogGroup(joined);
  vports_.SetCarrier(joined.has_value());
  // A smaller MTU that the operator has set stays as long as the VES's does not change.
  if (joined.has_value() && std::exchange(adopted_mtu_, joined->mtu_bytes) != joined->mtu_bytes) {
    const uint32_t mtu = static_cast<uint32_t>(joined->mtu_bytes) - kEoibHeaderSize;
    queues_.SetMtu(mtu);
    vports_.SetMtu(mtu);
  }
  AnnounceAddress();
  const bool announced = std::exchange(announced_, joined.has_value());
  if (!announced || !joined.has_value()) AnnounceMacs();
}

// The carrier of the interfaces follows the group.
void Ves::LogGroup(const absl::optional<GroupMembership::Joined>& joined) const {
  if (vports_.empty()) return;
  const std::string group = replicates() ? "flood by unicast copies"
                                         : absl::StrCat("flood group ", group_->mgid().ToString());
  const std::string ports = vports_.Names();
  if (!joined.has_value()) {
    const std::string& trouble = group_->trouble();
    const std::string text =
        absl::StrCat("VES ", config_.name, ": ", group, ": ", trouble.empty() ? "left" : trouble,
                     "; carrier down: ", ports);
    return trouble.empty() ? LogInfo(text) : LogWarning(text);
  }
  LogInfo(absl::StrCat("VES ", config_.name, ": ", group, ": joined",
                       joined->mlid.IsValid() ? ", MLID " + joined->mlid.ToString() : "",
                       ", Q_Key ", joined->qkey.ToString(), ", MTU ", joined->mtu_bytes,
                       "; carrier up: ", ports));
}

void Ves::AnnounceAddress() {
  if (!config_.announce) return;
  const bool can_send = group_->joined().has_value() && has_queue_pair();
  const std::vector<PeerAddress> own = can_send ? queues_.addresses() : std::vector<PeerAddress>();
  protocol_->SetAddresses(own, forwarder()->mtu());
  if (discovery_ != nullptr)
    discovery_->SetAddress(can_send ? absl::make_optional(own.front()) : absl::nullopt);
}

// Peers learn our new queue pair or LID from it before they send to the old one.
void Ves::AnnounceMacs() {
  if (group_->joined().has_value()) {
    announcer_->Start();
  } else {
    announcer_->Stop();
  }
}

// Looks at the list first: a message of an unlisted port must not cost a query to the SA.
void Ves::OnMessage(const ControlMessage& message, const PeerAddress& to) {
  const Gid& gid = message.peer.gid;
  const bool is_speech = message.length != 0 && message.payload[0] == VPortSpeaker::kFirstByte;
  if (!is_speech && (!config_.announce || !protocol_->Admits(gid))) return;
  if (!resolver_->IsTrusted(gid, message.slid, message.sl)) return;
  if (!is_speech) return protocol_->OnMessage(message, to);
  for (const VPort& vport : vports_) {
    if (VPortSpeaker* const speaker = vport.interface->speaker())
      speaker->OnMessage(this, {message.payload.data(), message.length}, message.peer);
  }
}

void Ves::SendSpeech(absl::Span<const uint8_t> payload) {
  ControlMessage message;
  message.length = static_cast<uint32_t>(payload.size());
  std::copy(payload.begin(), payload.end(), message.payload.begin());
  InjectQueue& injected = queues_.first().injected;
  if (injected.Push(message)) injected.Notify();
}

void Ves::Leave() {
  for (const VPort& vport : vports_) {
    if (VPortSpeaker* const speaker = vport.interface->speaker()) speaker->Leave(this);
  }
  protocol_->Leave();
}

void Ves::OnPunt(const Punt& punt) {
  switch (punt.kind) {
    case Punt::Kind::kNewPeer:
    case Punt::Kind::kReaddressed:
    case Punt::Kind::kUnresolved:
      resolver_->OnPunt(punt);
      break;
    case Punt::Kind::kFrozen:
    case Punt::Kind::kFlapping:
      loops_.OnDamped(punt);
      break;
    case Punt::Kind::kMoved:
      journal_.LogMove(punt.key, punt.previous, punt.vport);
      break;
    default:
      break;
  }
  if (config_.announce) protocol_->OnPunt(punt);
  if (punt.kind != Punt::Kind::kLocalHeard) return;
  const absl::optional<MacClaim> holder = protocol_->engine().Holder(punt.key);
  if (holder.has_value() && holder->sticky) loops_.OnForeign(punt);
}

// Punts come first: a message's sender has a path only after its punt.
bool Ves::HandleNext(VesQueue* queue) {
  Punt punt;
  if (queue->punts.Pop(&punt)) {
    OnPunt(punt);
    return true;
  }
  if (!queue->messages.Pop(&message_)) return false;
  OnMessage(message_, queue->address());
  return true;
}

// The worker also notifies the punt queue when its endpoint has failed.
bool Ves::RunPunts(size_t number) {
  VesQueue* const queue = &queues_[number];
  queue->punts.Clear();
  const Clock& clock = *context_.fabric.clock;
  const absl::Time end = clock.Now() + kTurn / static_cast<int64_t>(queues_.size());
  bool more = true;
  for (int handled = 0; more && handled < kPuntsPerTurn && (handled == 0 || clock.Now() < end);
       ++handled) {
    more = HandleNext(queue);
  }
  if (more) queue->punts.Notify();  // the loop calls us again
  if (queue->queue_pair.NoteFailure()) context_.on_lost();
  return more;
}

void Ves::Run() {
  group_->Run();
  resolver_->Run();
  protocol_->Run(config_.announce);
  if (discovery_ != nullptr) discovery_->Run();
  context_.fabric.handles->Reap();
  out_of_service_->Run();
  announcer_->Run();
  for (const VPort& vport : vports_) {
    if (VPortSpeaker* const speaker = vport.interface->speaker()) speaker->Run(this);
  }
  const absl::Time now = context_.fabric.clock->Now();
  if (now < next_age_) return;
  next_age_ = now + kAgeInterval;
  fdb_.Age();
  const ForwarderCounters counters = queues_.counters();
  loops_.OnImpostors(counters.drop(DropReason::kPinnedMac));
  if (now >= next_reclaim_) ReclaimVPorts();
}

// A vPort without FDB entries gets no frames, so it can be reclaimed. Keep those that the move
// damper refers to: one may be the home of a MAC that moved away, or the place that `fdb frozen`
// reports.
void Ves::ReclaimVPorts() {
  next_reclaim_ = context_.fabric.clock->Now() + kReclaimInterval;
  const absl::flat_hash_set<VPortId> damped = fdb_.DampedVPorts();
  directory_.Reclaim(
      [&](VPortId vport) { return fdb_.Held(vport) != 0 || damped.contains(vport); });
  resolver_->Reclaim();
}

absl::Time Ves::NextDeadline() const {
  const absl::Time discovery =
      discovery_ != nullptr ? discovery_->NextDeadline() : absl::InfiniteFuture();
  absl::Time next = std::min({next_age_, announcer_->NextDeadline(), group_->NextDeadline(),
                              resolver_->NextDeadline(), protocol_->NextDeadline(),
                              out_of_service_->NextDeadline(), discovery});
  for (const VPort& vport : vports_) {
    if (const VPortSpeaker* const speaker = vport.interface->speaker())
      next = std::min(next, speaker->NextDeadline());
  }
  return next;
}

// ---- vPorts ------------------------------------------------------------------------------------

absl::Status Ves::Check(const VPort& vport) const {
  bool strip;
  const VlanPolicy& vlan = vport.config.vlan;
  if (vport.config.static_macs.empty() || vlan.Egress(vlan.Untagged(), &strip))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "vPort ", vport.config.name, ": static_macs are in the port's access or native VLAN, and ",
      "it carries no VLAN ", vlan.Untagged().ToString()));
}

absl::Status Ves::AddVPort(VPort* vport) {
  if (absl::Status status = Check(*vport); !status.ok()) return status;
  const MacAddr pinned = vport->config.pin_mac ? vport->port->mac() : MacAddr();
  vport->index = forwarder()->AddPort(vport->port.get(), vport->config.vlan, pinned);
  const VPortId id = forwarder()->ports()[vport->index].vport;
  absl::Status status;
  if (id.IsNone()) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("VES ", config_.name, ": no room for vPort ", vport->config.name));
  }
  SetPolicy(*vport, id);
  for (MacAddr mac : vport->config.static_macs) {
    if (!status.ok()) break;
    status = fdb_.AddStatic(FdbKey(vport->config.vlan.Untagged(), mac), id);
    if (!status.ok())
      status = absl::Status(status.code(),
                            absl::StrCat("vPort ", vport->config.name, ": ", status.message()));
  }
  if (!status.ok()) {
    forwarder()->RemovePort(vport->index);
    return status;
  }
  queues_.AddToFurther(vport);
  protocol_->AddVPort(*vport, id);
  vports_.Add(std::move(*vport));
  return absl::OkStatus();
}

void Ves::SetPolicy(const VPort& vport, VPortId id) {
  fdb_.SetVPortPolicy(id, {vport.config.fdb_limit, vport.config.sticky});
}

void Ves::ChangeVPort(const VPortConfig& config) {
  VPort* const at = vports_.Find(config.name);
  at->config = config;
  SetPolicy(*at, forwarder()->ports()[at->index].vport);
  at->interface->Adjust(config);
}

void Ves::RenameVPort(const std::string& before, const std::string& after) {
  VPort* const at = vports_.Find(before);
  at->config.name = after;
  protocol_->RenameVPort(*at);
}

void Ves::FollowVPorts() {
  if (!running_ || is_used_ != vports_.empty()) return;
  is_used_ = !vports_.empty();
  if (is_used_) return group_->Return();
  if (discovery_ != nullptr) discovery_->Leave([] {});
  group_->Leave([] {});
}

void Ves::SetUpVPorts(absl::FunctionRef<bool(const VPort& vport)> concerned) {
  std::vector<uint32_t> indexes;
  for (VPort& vport : vports_) {
    if (!concerned(vport)) continue;
    if (running_) vports_.SetUp(&vport, group_->joined().has_value());
    indexes.push_back(vport.index);
  }
  if (!indexes.empty() && group_->joined().has_value()) announcer_->Start(indexes);
}

void Ves::NoteRemade(uint32_t index, const std::string& trouble) {
  vports_.At(index)->trouble = trouble;
  if (trouble.empty()) SetUpVPorts([index](const VPort& vport) { return vport.index == index; });
}

void Ves::NoteTrouble(uint32_t index, const std::string& trouble) {
  VPort* const at = vports_.At(index);
  if (at->trouble == trouble) return;
  at->trouble = trouble;
  const std::string name = absl::StrCat("vPort ", at->config.name, ": ");
  trouble.empty() ? LogInfo(absl::StrCat(name, "its interface is up again"))
                  : LogWarning(absl::StrCat(name, trouble));
}

VPort Ves::RemoveVPort(const std::string& name) {
  VPort* const at = vports_.Find(name);
  for (size_t queue = 0; queue < queues_.size(); ++queue) {
    while (RunPunts(queue)) {  // they may name it
    }
  }
  if (VPortSpeaker* const speaker = at->interface->speaker()) speaker->Leave(this);
  const VPortId id = forwarder()->ports()[at->index].vport;
  auto counted = std::make_unique<PortCounters>(queues_.CountersOf(*at));
  queues_.RemovePort(at->index);
  protocol_->RemoveVPort(*at, id);  // a MAC that another agent has, too, is there from now on
  VPort vport = vports_.Take(name);
  vport.counted = std::move(counted);
  return vport;
}

std::string Ves::ReaderOf(const VPort& vport) const {
  return context_.workers == 1 ? ""
                               : Workers::NameOf(Workers::ReaderOf(vport.index, queues_.size()));
}

// ---- The VES's own keys -------------------------------------------------------------------------

void Ves::Change(const VesConfig& config) {
  bool has_new_vlan = false;
  for (uint16_t value = 0; value <= Vid::kMax; ++value) {
    const bool before = config_.vlans.Contains(Vid(value)),
               after = config.vlans.Contains(Vid(value));
    if (before && !after) fdb_.FlushVlan(Vid(value));
    has_new_vlan |= !before && after;
  }
  const bool has_other_agents = config_.agents != config.agents;
  config_ = config;
  fdb_.Change(FdbOptionsOf(config));
  queues_.SetAdmission(config);
  // What others announced there, before it was flushed.
  if (has_new_vlan && protocol_ != nullptr) protocol_->Restore();
  if (has_other_agents && protocol_ != nullptr) protocol_->SetAgents(config.agents);
  if (has_other_agents && discovery_ != nullptr) discovery_->Refresh();
}

Fdb::Options Ves::FdbOptionsOf(const VesConfig& config) const {
  return {config.ageing, config.fdb_limit, config.vport_fdb_limit.value_or(config.fdb_limit),
          config.damping,
          // All local vPorts count as one claimant, the zero GID.
          [this](VPortId vport) { return directory_.Peer(vport).value_or(PeerAddress()).gid; }};
}

// ---- For the operator ---------------------------------------------------------------------------

std::string Ves::Behind(VPortId vport) const {
  const RemoteAgent* const agent = protocol_->AgentBehind(vport);
  return agent == nullptr ? Place(vport)
                          : absl::StrCat(Place(vport), " (", VesProtocol::HostOf(*agent), ")");
}

std::string Ves::Place(VPortId vport) const {
  if (vport.IsNone()) return "no vPort";
  const Route route = directory_.Get(vport);
  if (route.kind == Route::Kind::kLocal)
    return absl::StrCat("vPort ", vports_.NameAt(route.local_port));
  const std::vector<VPortAddress> addresses = directory_.Addresses(vport);
  if (addresses.empty()) return "a vPort that is gone";
  return absl::StrJoin(addresses, " and ",
                       [&addresses](std::string* out, const VPortAddress& address) {
                         absl::StrAppend(out, "GID ", address.peer.gid.ToString(), " QPN ",
                                         address.peer.qpn.ToString());
                         if (addresses.size() > 1 && address.state() != VPortState::kUp)
                           absl::StrAppend(out, " (", StateName(address.state()), ")");
                       });
}

}  // namespace eoib
