#include "control/ves.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

constexpr absl::Duration kAgeInterval = absl::Seconds(1);
constexpr absl::Duration kReclaimInterval = absl::Seconds(10);
constexpr int kPuntsPerTurn = 256;
// Flush the MACs behind a port this long after trap 65 (README.md says why).
constexpr absl::Duration kGoneForGood = absl::Seconds(3);
// How long to hold a frame for a new RoCE peer: longer than the kernel's neighbour discovery may take.
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

// The MTU of the interfaces until the flood group's record gives it. A port that is down may not know its MTU; then assume
// 2048, the default for groups.
uint8_t MtuCodeUntilJoined(const HcaPortInfo& port) {
  return MtuBytes(port.mtu) != 0 ? port.mtu : static_cast<uint8_t>(IbMtu::k2048);
}

// What a log line says of a MAC that moved too often.
std::string Consequence(const Ves& ves, const Punt& punt) {
  const MoveDamper::Options& damping = ves.fdb().options().damping;
  if (damping.action == MoveDamper::Action::kWarn) return "";
  if (punt.kind == Punt::Kind::kFlapping) {
    return "; it is not frozen: a port of this host is one of them, its home has no room, or as many are frozen as may be";
  }
  const auto frozen = ves.fdb().frozen();
  const auto at = frozen.find(punt.key);
  return absl::StrCat(
      "; it is held at ", at == frozen.end() ? "its home" : ves.Behind(at->second.at),
      damping.action == MoveDamper::Action::kFreeze ? absl::StrCat(" for ", absl::FormatDuration(damping.freeze), ", or") : "",
      " until `eoibctl fdb thaw ", ves.config().name, " ", punt.key.vid().ToString(), " ", punt.key.mac().ToString(), "`");
}

// The attributes are used on an Ethernet link layer only, where they are the configured ones.
PathResolver::Source PathSource(const FabricPort::Resources& fabric, const GroupParameters& group) {
  return {fabric.sa,
          fabric.maker,
          group.sl,
          {.traffic_class = group.traffic_class, .hop_limit = HopLimit(group, /*ethernet_link_layer=*/true)}};
}

}  // namespace

Ves::Ves(const VesConfig& config, const Context& context, const Gid& gid)
    : config_(config),
      context_(context),
      fdb_({config.ageing, config.fdb_limit, config.vport_fdb_limit.value_or(config.fdb_limit), config.damping,
            context.fdb_budget,
            // All local vPorts count as one claimant, the zero GID.
            [this](VPortId vport) { return directory_.Peer(vport).value_or(PeerAddress()).gid; }},
           context.fabric.clock),
      move_log_(context.fabric.clock, 10, absl::Seconds(6)),
      damped_log_(context.fabric.clock, 10, absl::Seconds(6)),
      queue_pair_({"VES " + config.name, config.pkey, {.qkey = QKeyOf(config)}}, context.fabric, context.pool, gid),
      announcer_(config.vlans, &vports_, &injected_, context.fabric.clock),
      next_age_(context.fabric.clock->Now() + kAgeInterval),
      next_reclaim_(context.fabric.clock->Now() + kReclaimInterval) {}

absl::StatusOr<std::unique_ptr<Ves>> Ves::Create(const VesConfig& config, const Context& context) {
  const absl::StatusOr<HcaPortInfo> port = context.fabric.hca->QueryPort();
  if (!port.ok()) return port.status();
  auto ves = std::unique_ptr<Ves>(new Ves(config, context, port->gid));
  Forwarder::Options options;
  options.vlans = config.vlans;
  options.group_fwd_mask = config.group_fwd_mask;
  options.header_form = config.header;
  options.flood_mgid = FloodMgid(config.pkey);
  options.flow_seed = std::random_device()() | uint64_t{std::random_device()()} << 32;
  if (port->ethernet_link_layer) options.hold = kHoldOnEthernet;
  ves->forwarder_ = std::make_unique<Forwarder>(
      options,
      Forwarder::Dependencies{context.pool, &ves->fdb_, &ves->directory_, &ves->punts_, &ves->injected_, context.fabric.clock},
      Forwarder::Uplink());
  ves->forwarder_->SetMtu(static_cast<uint32_t>(MtuBytes(MtuCodeUntilJoined(*port))) - kEoibHeaderSize);
  Ves* self = ves.get();
  ves->resolver_ = std::make_unique<PathResolver>(PathSource(context.fabric, config.group), context.fabric.handles,
                                                  &ves->directory_, context.fabric.clock, port->gid, config.pkey, [self] {
                                                    self->injected_.RetryHeld();
                                                    self->injected_.Notify();
                                                  });
  ves->group_ = std::make_unique<GroupMembership>(
      GroupMembership::Options{options.flood_mgid, config.pkey, QKeyOf(config), config.group}, context.fabric.hca,
      context.fabric.sa, context.fabric.handles,
      /*endpoint=*/nullptr, context.fabric.clock,
      [self](const absl::optional<GroupMembership::Joined>& joined) { self->OnGroup(joined); });
  if (absl::Status status = ves->Rebuild(); !status.ok()) return status;
  return ves;
}

Ves::~Ves() {
  group_.reset();
  resolver_.reset();
  forwarder_.reset();  // before the queue pair, on which it posts
  queue_pair_.Drop();
}

absl::Status Ves::AddVPort(VPort vport) {
  const MacAddr pinned = vport.config.pin_mac ? vport.port->mac() : MacAddr();
  vport.index = forwarder_->AddPort(vport.port.get(), vport.config.vlan, pinned);
  const VPortId id = forwarder_->ports()[vport.index].vport;
  if (id.IsNone())
    return absl::ResourceExhaustedError(absl::StrCat("VES ", config_.name, ": no room for vPort ", vport.config.name));
  bool strip;
  if (!vport.config.static_macs.empty() && !vport.config.vlan.Egress(vport.config.vlan.Untagged(), &strip)) {
    return absl::InvalidArgumentError(absl::StrCat("vPort ", vport.config.name,
                                                   ": static_macs are in the port's access or native VLAN, and ",
                                                   "it carries no VLAN ", vport.config.vlan.Untagged().ToString()));
  }
  fdb_.SetVPortPolicy(id, {vport.config.fdb_limit, vport.config.sticky});
  for (MacAddr mac : vport.config.static_macs) {
    const absl::Status added = fdb_.AddStatic(FdbKey(vport.config.vlan.Untagged(), mac), id);
    if (!added.ok()) return absl::Status(added.code(), absl::StrCat("vPort ", vport.config.name, ": ", added.message()));
  }
  vports_.push_back(std::move(vport));
  return absl::OkStatus();
}

void Ves::Refresh(RefreshDepth depth) {
  if (depth == RefreshDepth::kLight) {
    group_->Join();
  } else {
    announced_ = false;
    group_->Renew();
    // Announce now, with the present handle: the SA may take long to answer, and the peers lose frames until they hear us.
    if (!announced_) AnnounceMacs();
  }
  resolver_->RefreshAll();
}

void Ves::OnPortDown(absl::string_view why) {
  if (has_queue_pair()) group_->Lost(why);
}

absl::Status Ves::Rebuild() {
  const absl::Status status = queue_pair_.Replace([this](UdEndpoint* endpoint) {
    // The worker is paused, so all three users change together.
    const PKey pkey = queue_pair_.pkey();
    forwarder_->Rebind({endpoint, {queue_pair_.gid(), endpoint->qpn()}, !pkey.IsFullMember()});
    resolver_->SetOwn(queue_pair_.gid(), pkey);
    group_->Rebind(endpoint, pkey);
  });
  if (!status.ok()) TakeDown(status.message());
  return absl::IsNotFound(status) ? absl::OkStatus() : status;  // a missing P_Key is waited for, and is no error
}

void Ves::TakeDown(absl::string_view why) {
  if (group_->trouble() != why) LogWarning(absl::StrCat(why, "; VES ", config_.name, " stays down"));
  group_->Lost(why);
  group_->Rebind(nullptr, queue_pair_.pkey());
  forwarder_->Rebind({nullptr, {}, !queue_pair_.pkey().IsFullMember()});
  queue_pair_.Drop();
}

// Flush the MACs behind a port that is out of service, but only after kGoneForGood: a killed agent is back within a second
// with the same GID, and PeerTracker::Follow then moves all its MACs at once. See README.md, "What the subnet reports".
void Ves::OnNotice(SmTrap trap, const Gid& gid) {
  switch (trap) {
    case SmTrap::kGidInService:
      gone_.erase(gid);
      return resolver_->OnInService(gid);
    case SmTrap::kGidOutOfService:
      gone_.try_emplace(gid, context_.fabric.clock->Now());
      return resolver_->OnOutOfService(gid);
    case SmTrap::kGroupCreated:
      if (gid == group_->mgid().gid()) group_->OnCreated();
      return;
    case SmTrap::kGroupDeleted:
      if (gid == group_->mgid().gid()) group_->OnDeleted();
      return;
  }
}

// Handles all due ports in one pass over the directory and the FDB: a dead InfiniBand switch takes many ports with it.
void Ves::FlushGone() {
  const absl::Time now = context_.fabric.clock->Now();
  absl::flat_hash_map<Gid, absl::Time> due;
  for (const auto& [gid, since] : gone_) {
    if (since + kGoneForGood <= now) due.emplace(gid, since);
  }
  if (due.empty()) return;
  for (const auto& [gid, since] : due) gone_.erase(gid);
  // Skip a vPort that still has an address at another port.
  const auto is_due = [&due](const VPortAddress& address) { return due.contains(address.peer.gid); };
  absl::flat_hash_map<VPortId, Gid> behind;
  for (const VPortDirectory::Row& row : directory_.Dump()) {
    const std::vector<VPortAddress>& addresses = row.addresses;
    if (addresses.empty() || !std::all_of(addresses.begin(), addresses.end(), is_due)) continue;
    behind.emplace(row.vport, addresses[0].peer.gid);
  }
  if (behind.empty()) return;
  for (const Gid& gid : HeardSince(due, behind, now)) {
    due.erase(gid);
    resolver_->OnInService(gid);
  }
  size_t forgotten = 0;
  for (const auto& [vport, gid] : behind) {
    if (due.contains(gid)) forgotten += fdb_.FlushLearned(vport) + fdb_.FlushSticky(vport);
  }
  if (forgotten != 0) {
    LogInfo(absl::StrCat("VES ", config_.name, ": ", due.size(), " ports are out of service; forgot ", forgotten, " MACs"));
  }
}

// Returns those of `ports` that were heard after they went out of service, judged by the ages of their FDB entries. Ages are
// in whole ticks, so an entry may be up to one tick older than it says; in doubt it was heard before. Frozen entries are no
// evidence.
absl::flat_hash_set<Gid> Ves::HeardSince(const absl::flat_hash_map<Gid, absl::Time>& ports,
                                         const absl::flat_hash_map<VPortId, Gid>& behind, absl::Time now) const {
  absl::flat_hash_set<Gid> heard;
  const absl::Duration tick = fdb_.tick();
  fdb_.Visit([&](const Fdb::Entry& entry) {
    const auto gid = behind.find(entry.vport);
    if (gid == behind.end() || entry.origin != FdbOrigin::kRemoteLearned || entry.frozen) return;
    if (now - entry.age - tick >= ports.at(gid->second)) heard.insert(gid->second);
  });
  return heard;
}

void Ves::OnGroup(const absl::optional<GroupMembership::Joined>& joined) {
  forwarder_->SetFloodHandle(joined.has_value() ? joined->ah : AhIndex::None());
  SetCarrier(joined.has_value());
  if (joined.has_value() && adopted_mtu_ != joined->mtu_bytes) AdoptMtu(joined->mtu_bytes);
  const bool announced = std::exchange(announced_, joined.has_value());
  if (!announced || !joined.has_value()) AnnounceMacs();
}

// Skips a carrier that does not change: the kernel takes the rtnl lock for it, which others may hold for long.
void Ves::SetCarrier(bool up) {
  if (carrier_ == up) return;
  carrier_ = up;
  for (VPort& vport : vports_) {
    const absl::Status status = vport.set_link(up);
    if (status.ok()) continue;
    LogWarning(status.message());
    carrier_.reset();
  }
}

void Ves::AdoptMtu(int group_mtu_bytes) {
  adopted_mtu_ = group_mtu_bytes;  // OnGroup skips an unchanged MTU, so a smaller one set by the operator stays
  const int mtu = group_mtu_bytes - static_cast<int>(kEoibHeaderSize);
  forwarder_->SetMtu(static_cast<uint32_t>(mtu));
  for (VPort& vport : vports_) {
    const absl::Status status = vport.set_mtu(std::min(vport.config.mtu.value_or(mtu), mtu - kNetdevOverhead));
    if (!status.ok()) LogWarning(status.message());
  }
}

// Peers learn our new queue pair or LID from it before they send to the old one.
void Ves::AnnounceMacs() {
  if (group_->joined().has_value()) {
    announcer_.Start();
  } else {
    announcer_.Stop();
  }
}

// A bounded number in each turn: a peer can make the worker punt faster than we handle punts.
void Ves::RunPunts() {
  punts_.Clear();
  Punt punt;
  for (int taken = 0; taken < kPuntsPerTurn; ++taken) {
    if (!punts_.Pop(&punt)) {
      // The worker also notifies the punt queue when its endpoint has failed.
      if (queue_pair_.NoteFailure()) context_.on_lost();
      return;
    }
    OnPunt(punt);
  }
  punts_.Notify();  // the loop calls us again
}

void Ves::OnPunt(const Punt& punt) {
  if (punt.kind == Punt::Kind::kFrozen || punt.kind == Punt::Kind::kFlapping) {
    OnDamped(punt);
  } else if (punt.kind != Punt::Kind::kMoved) {
    resolver_->OnPunt(punt);
  } else if (move_log_.Allow()) {
    LogInfo(absl::StrCat("VES ", config_.name, ": ", punt.key.mac().ToString(), " in VLAN ", punt.key.vid().ToString(),
                         " moved to ", Behind(punt.vport)));
  }
}

// Rate-limited: a station can make a MAC flap with each frame that it sends. The FDB counts all of them.
void Ves::OnDamped(const Punt& punt) {
  if (!damped_log_.Allow()) return;
  const FdbCounters counters = fdb_.counters();
  const uint64_t damped = counters.froze + counters.flapping;
  const uint64_t others = std::max<uint64_t>(damped - std::exchange(damped_logged_, damped), 1) - 1;
  const MoveDamper::Options& damping = fdb_.options().damping;
  LogWarning(absl::StrCat("VES ", config_.name, ": ", punt.key.mac().ToString(), " in VLAN ", punt.key.vid().ToString(),
                          " moved ", damping.moves, " times within ", absl::FormatDuration(damping.window),
                          ", the last time from ", Behind(punt.previous), " to ", Behind(punt.vport),
                          ": two interfaces have this address, or there is a loop behind them", Consequence(*this, punt),
                          others != 0 ? absl::StrCat("; ", others, " more like this since the last message") : ""));
}

void Ves::Run() {
  group_->Run();
  resolver_->Run();
  context_.fabric.handles->Reap();
  FlushGone();
  announcer_.Run();
  const absl::Time now = context_.fabric.clock->Now();
  if (now < next_age_) return;
  next_age_ = now + kAgeInterval;
  fdb_.Age();
  if (now >= next_reclaim_) ReclaimVPorts();
}

// A vPort without FDB entries gets no frames, so it can be reclaimed. Keep those that the move damper refers to: one may be
// the home of a MAC that moved away, or the place that `fdb frozen` reports.
void Ves::ReclaimVPorts() {
  next_reclaim_ = context_.fabric.clock->Now() + kReclaimInterval;
  const absl::flat_hash_set<VPortId> damped = fdb_.DampedVPorts();
  directory_.Reclaim([&](VPortId vport) { return fdb_.Held(vport) != 0 || damped.contains(vport); });
  resolver_->Reclaim();
}

absl::Time Ves::NextDeadline() const {
  absl::Time next = std::min({next_age_, announcer_.NextDeadline(), group_->NextDeadline(), resolver_->NextDeadline()});
  for (const auto& [gid, since] : gone_) next = std::min(next, since + kGoneForGood);
  return next;
}

std::string Ves::Behind(VPortId vport) const {
  if (vport.IsNone()) return "no vPort";
  const Route route = directory_.Get(vport);
  if (route.kind == Route::Kind::kLocal) return absl::StrCat("vPort ", vports_[route.local_port].config.name);
  const std::vector<VPortAddress> addresses = directory_.Addresses(vport);
  if (addresses.empty()) return "a peer that is gone";
  return absl::StrJoin(addresses, " and ", [&addresses](std::string* out, const VPortAddress& address) {
    absl::StrAppend(out, "GID ", address.peer.gid.ToString(), " QPN ", address.peer.qpn.ToString());
    if (addresses.size() > 1 && address.state() != VPortState::kUp) absl::StrAppend(out, " (", StateName(address.state()), ")");
  });
}

}  // namespace eoib
