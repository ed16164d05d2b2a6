#include "control/ves/ves.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/check.h"
#include "vswitch/base/system_random.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

constexpr absl::Duration kAgeInterval = absl::Seconds(1);
constexpr absl::Duration kReclaimInterval = absl::Seconds(10);
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

// The MTU of the interfaces until the flood group's record gives it. A port that is down may not
// know its MTU; then assume 2048, the default for groups.
uint8_t MtuCodeUntilJoined(const HcaPortInfo& port) {
  return MtuBytes(port.mtu) != 0 ? port.mtu : static_cast<uint8_t>(IbMtu::k2048);
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
      forwarding_(ForwardingOf(config, context, port, &floods_)),
      damped_log_(context.fabric.clock, 10, absl::Seconds(6)),
      loop_log_(context.fabric.clock, 1, absl::Minutes(1)),
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
  auto first = ves->MakeQueue();
  if (!first.ok()) return first.status();
  ves->queues_.push_back(*std::move(first));
  ves->forwarder()->SetMtu(static_cast<uint32_t>(MtuBytes(MtuCodeUntilJoined(*port))) -
                           kEoibHeaderSize);
  Ves* self = ves.get();
  ves->announcer_ = std::make_unique<RarpAnnouncer>(
      &ves->config_.vlans, &ves->vports_, &ves->queues_.front()->injected, context.fabric.clock);
  ves->resolver_ = std::make_unique<PathResolver>(
      PathSource(context.fabric, config.group), context.fabric.handles, &ves->directory_,
      context.fabric.clock, port->gid, config.pkey, [self] { self->RetryHeld(); });
  ves->protocol_ = std::make_unique<VesProtocol>(
      context.identity, context.host,
      VesProtocol::Dependencies{&ves->fdb_, &ves->directory_, ves->resolver_.get(),
                                [self](const PeerAddress& own) { return self->InjectedAt(own); },
                                [self] { self->RetryHeld(); }, &ves->journal_, context.fabric.clock,
                                &ves->config_.vlans, ves->forwarding_.floods, context.last_version,
                                context.on_id_taken});
  ves->protocol_->SetAgents(config.agents);
  ves->out_of_service_ = std::make_unique<OutOfService>(
      config.name, OutOfService::Dependencies{&ves->fdb_, &ves->directory_, ves->resolver_.get(),
                                              ves->protocol_.get(), context.fabric.clock});
  ves->MakeGroup(ves->forwarding_.flood_mgid);
  if (absl::Status status = ves->Rebuild(); !status.ok()) return status;
  while (ves->queues() < ves->WantedQueues()) {
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
  queues_.clear();
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
  TellQueues();
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
  for (const auto& queue : queues_) {
    queue->forwarder->SetFloodHandle(joined.has_value() ? joined->ah : AhIndex::None());
    // The membership sets the Q_Key of the first one.
    if (queue == queues_.front() || !joined.has_value() || queue->queue_pair.get() == nullptr)
      continue;
    const absl::Status status = queue->queue_pair.get()->SetQKey(joined->qkey);
    if (!status.ok()) LogWarning(status.message());
  }
  if (carrier_.value_or(false) != joined.has_value()) LogGroup(joined);
  SetCarrier(joined.has_value());
  if (joined.has_value() && adopted_mtu_ != joined->mtu_bytes) AdoptMtu(joined->mtu_bytes);
  AnnounceAddress();
  const bool announced = std::exchange(announced_, joined.has_value());
  if (!announced || !joined.has_value()) AnnounceMacs();
}

void Ves::AnnounceAddress() {
  if (!config_.announce) return;
  const bool can_send = group_->joined().has_value() && has_queue_pair();
  std::vector<PeerAddress> own;
  for (const auto& queue : queues_) {
    if (can_send) own.push_back(queue->address());
  }
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
  InjectQueue& injected = queues_.front()->injected;
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
      OnDamped(punt);
      break;
    case Punt::Kind::kMoved:
      journal_.LogMove(punt.key, punt.previous, punt.vport);
      break;
    default:
      break;
  }
  if (config_.announce) protocol_->OnPunt(punt);
  if (punt.kind == Punt::Kind::kLocalHeard) NoteForeign(punt);
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
  NoteImpostors();
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

std::string Ves::Behind(VPortId vport) const {
  const RemoteAgent* const agent = protocol_->AgentBehind(vport);
  return agent == nullptr ? Place(vport)
                          : absl::StrCat(Place(vport), " (", VesProtocol::HostOf(*agent), ")");
}

std::string Ves::Place(VPortId vport) const {
  if (vport.IsNone()) return "no vPort";
  const Route route = directory_.Get(vport);
  if (route.kind == Route::Kind::kLocal) return absl::StrCat("vPort ", VPortAt(route.local_port));
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
