#include "control/ves.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "vswitch/wire/mgid.h"

namespace eoib {
namespace {

constexpr absl::Duration kAgeInterval = absl::Seconds(1);
// A join is announced at once, and 100, 300, 700 and 1,500 ms later.
constexpr int kAnnouncements = 5;
constexpr absl::Duration kAnnouncementInterval = absl::Milliseconds(100);
constexpr uint16_t kEtherTypeRarp = 0x8035;

const char* OriginName(FdbOrigin origin) {
  switch (origin) {
    case FdbOrigin::kRemoteLearned:
    case FdbOrigin::kLocalLearned:
      return "learned";
    case FdbOrigin::kAnnounced:
      return "announced";
    case FdbOrigin::kManager:
      return "manager";
    case FdbOrigin::kStatic:
      return "static";
  }
  return "?";
}

// A reverse-ARP request of the interface for itself (RFC 903), which is what hypervisors send when a guest arrives somewhere:
// every switch on the way learns where the address is now, and no host answers.
Injected SelfAnnouncement(MacAddr mac, uint32_t port, Vid vid) {
  Injected message;
  message.kind = Injected::Kind::kFrame;
  message.port = port;
  message.length = kMinFrameSize;
  uint8_t* frame = message.frame.data() + kVlanTagSize;
  MacAddr::Broadcast().ToWire(frame);
  mac.ToWire(frame + 6);
  const uint8_t header[] = {kEtherTypeRarp >> 8, kEtherTypeRarp & 0xff, 0, 1, 8, 0, 6, 4, 0, 3};
  std::memcpy(frame + 12, header, sizeof(header));
  mac.ToWire(frame + 22);  // sender hardware address
  mac.ToWire(frame + 32);  // target hardware address
  if (vid.IsUntagged()) {
    std::memmove(message.frame.data(), frame, message.length);
  } else {
    InsertVlanTag(frame, vid, 0);
    message.length += kVlanTagSize;
  }
  return message;
}

}  // namespace

Ves::Ves(const VesConfig& config, const Shared& shared, Hca::PKeyIndex pkey, const Gid& gid)
    : config_(config),
      shared_(shared),
      pkey_(pkey),
      gid_(gid),
      fdb_({config.ageing, config.fdb_limit}, shared.clock),
      move_log_(shared.clock, 10, absl::Seconds(6)),
      next_age_(shared.clock->Now() + kAgeInterval) {}

absl::StatusOr<std::unique_ptr<Ves>> Ves::Create(const VesConfig& config, const Shared& shared) {
  const absl::StatusOr<Hca::PKeyIndex> pkey = shared.hca->FindPKey(config.pkey);
  if (!pkey.ok()) return absl::Status(pkey.status().code(), absl::StrCat("VES ", config.name, ": ", pkey.status().message()));
  const absl::StatusOr<HcaPortInfo> port = shared.hca->QueryPort();
  if (!port.ok()) return port.status();

  auto ves = std::unique_ptr<Ves>(new Ves(config, shared, *pkey, port->gid));
  const QKey qkey = config.qkey.value_or(QKey(0x8000'0000u | pkey->pkey.Full().value()));
  auto endpoint =
      UdEndpoint::Create(shared.hca, shared.pd, shared.pool, shared.handles, {.pkey_index = pkey->index, .qkey = qkey});
  if (!endpoint.ok()) return endpoint.status();
  ves->endpoint_ = *std::move(endpoint);

  Forwarder::Options options;
  options.vlans = config.vlans;
  options.flood_mgid = FloodMgid(config.pkey);
  options.own = {port->gid, ves->endpoint_->qpn()};
  options.limited_member = !pkey->pkey.IsFullMember();
  ves->forwarder_ =
      std::make_unique<Forwarder>(options, Forwarder::Parts{shared.pool, ves->endpoint_.get(), &ves->fdb_, &ves->directory_,
                                                            &ves->punts_, &ves->injected_, shared.clock});
  ves->forwarder_->SetMtu(MtuBytes(port->mtu) - kEoibHeaderSize);
  Ves* self = ves.get();
  ves->resolver_ = std::make_unique<Resolver>(shared.sa, shared.handles, &ves->directory_, shared.clock, port->gid, pkey->pkey,
                                              [self] { self->RetryHeld(); });
  ves->group_ = std::make_unique<FloodGroup>(
      FloodGroup::Options{options.flood_mgid, pkey->pkey, qkey}, shared.hca, shared.sa, shared.handles, ves->endpoint_.get(),
      shared.clock, [self](const absl::optional<FloodGroup::Joined>& joined) { self->OnGroup(joined); });
  return ves;
}

Ves::~Ves() {
  group_.reset();
  resolver_.reset();
  forwarder_.reset();
  endpoint_.reset();
}

absl::Status Ves::AddVPort(VPort vport) {
  vport.index = forwarder_->AddPort(vport.port.get(), vport.config.vlan);
  const VPortId id = forwarder_->ports()[vport.index].vport;
  if (id.IsNone())
    return absl::ResourceExhaustedError(absl::StrCat("VES ", config_.name, ": no room for vPort ", vport.config.name));
  bool strip;
  if (!vport.config.static_macs.empty() && !vport.config.vlan.Egress(vport.config.vlan.Untagged(), &strip)) {
    return absl::InvalidArgumentError(absl::StrCat("vPort ", vport.config.name,
                                                   ": static_macs are in the port's access or native VLAN, and ",
                                                   "it carries no VLAN ", vport.config.vlan.Untagged().ToString()));
  }
  for (MacAddr mac : vport.config.static_macs) {
    const absl::Status added = fdb_.AddStatic(FdbKey(vport.config.vlan.Untagged(), mac), id);
    if (!added.ok()) return absl::Status(added.code(), absl::StrCat("vPort ", vport.config.name, ": ", added.message()));
  }
  vports_.push_back(std::move(vport));
  return absl::OkStatus();
}

void Ves::Start() { group_->Join(); }
void Ves::Stop(std::function<void()> done) { group_->Leave(std::move(done)); }

void Ves::OnPortUp() {
  group_->Join();
  resolver_->RefreshAll();
}

std::string Ves::WhatNeedsARestart() const {
  const absl::StatusOr<Hca::PKeyIndex> pkey = shared_.hca->FindPKey(config_.pkey);
  if (pkey.ok() && (pkey->index != pkey_.index || pkey->pkey != pkey_.pkey)) {
    return absl::StrCat("VES ", config_.name, "'s P_Key is ", pkey->pkey.ToString(), " at index ", pkey->index, " now");
  }
  const absl::StatusOr<HcaPortInfo> port = shared_.hca->QueryPort();
  if (port.ok() && port->gid != gid_) return absl::StrCat("the port's GID is ", port->gid.ToString(), " now");
  return "";
}

void Ves::OnPortDown() { group_->Lost(); }

void Ves::OnGroup(const absl::optional<FloodGroup::Joined>& joined) {
  forwarder_->SetFloodHandle(joined.has_value() ? joined->ah : AhIndex::None());
  announcements_ = 0;
  next_announcement_ = absl::InfiniteFuture();
  for (VPort& vport : vports_) {
    const absl::Status status = vport.set_link(joined.has_value());
    if (!status.ok()) LogWarning(status.message());
  }
  if (!joined.has_value()) return;
  if (adopted_mtu_ != joined->mtu_bytes) AdoptMtu(joined->mtu_bytes);
  Announce();
}

void Ves::AdoptMtu(int group_mtu_bytes) {
  adopted_mtu_ = group_mtu_bytes;  // once: a smaller MTU that the operator sets later stays
  const int mtu = group_mtu_bytes - static_cast<int>(kEoibHeaderSize);
  forwarder_->SetMtu(static_cast<uint32_t>(mtu));
  for (VPort& vport : vports_) {
    const absl::Status status = vport.set_mtu(std::min(vport.config.mtu.value_or(mtu), mtu - kNetdevOverhead));
    if (!status.ok()) LogWarning(status.message());
  }
}

// After each join, so that agents who knew this one by its former queue pair learn the new one before they need it. More than
// once: whoever joins a little later, because the subnet itself has just come back, does not hear the first.
void Ves::Announce() {
  next_announcement_ = shared_.clock->Now() + kAnnouncementInterval * (1 << announcements_);
  if (++announcements_ == kAnnouncements) next_announcement_ = absl::InfiniteFuture();
  for (const VPort& vport : vports_) {
    absl::optional<Vid> vid = AnnouncedIn(vport.config.vlan);
    if (!vport.port->mac().IsZero() && vid.has_value()) injected_.Push(SelfAnnouncement(vport.port->mac(), vport.index, *vid));
  }
  injected_.Notify();
}

// The VLAN of untagged frames if the port carries it, else its lowest, which takes a tag; none if it carries no VLAN of the
// VES.
absl::optional<Vid> Ves::AnnouncedIn(const VlanPolicy& vlan) const {
  bool strip;
  const auto carries = [&](Vid vid) { return config_.vlans.Contains(vid) && vlan.Egress(vid, &strip); };
  if (carries(vlan.Untagged())) return Vid(0);
  for (uint16_t vid = 1; vid <= Vid::kMax; ++vid) {
    if (carries(Vid(vid))) return Vid(vid);
  }
  return absl::nullopt;
}

void Ves::RetryHeld() {
  injected_.Push(Injected{});
  injected_.Notify();
}

void Ves::RunPunts() {
  punts_.Clear();
  Punt punt;
  while (punts_.Pop(&punt)) {
    if (punt.kind != Punt::Kind::kMoved) {
      resolver_->OnPunt(punt);
    } else if (move_log_.Allow()) {
      LogInfo(absl::StrCat("VES ", config_.name, ": ", punt.key.mac().ToString(), " in VLAN ", punt.key.vid().ToString(),
                           " moved to ", Behind(punt.vport)));
    }
  }
}

void Ves::Run() {
  group_->Run();
  resolver_->Run();
  shared_.handles->Reap();
  const absl::Time now = shared_.clock->Now();
  if (now >= next_announcement_) Announce();
  if (now < next_age_) return;
  next_age_ = now + kAgeInterval;
  fdb_.Age();
}

absl::Time Ves::NextDeadline() const {
  return std::min({next_age_, next_announcement_, group_->NextDeadline(), resolver_->NextDeadline()});
}

// ---- For the operator -------------------------------------------------------------------------------------------------

std::string Ves::Behind(VPortId vport) const {
  const Route route = directory_.Get(vport);
  if (route.kind == Route::Kind::kLocal) return absl::StrCat("vPort ", vports_[route.local_port].config.name);
  const absl::optional<PeerAddress> peer = directory_.Peer(vport);
  return peer.has_value() ? absl::StrCat("GID ", peer->gid.ToString(), " QPN ", peer->qpn.ToString()) : "a peer that is gone";
}

std::string Ves::Show() const {
  std::string text = absl::StrCat(
      "VES ", config_.name, ": P_Key ", pkey_.pkey.ToString(), pkey_.pkey.IsFullMember() ? " (full" : " (limited",
      " member), QPN ", endpoint_->qpn().ToString(), ", VLANs ", config_.vlans.ToString(), ", MTU ", forwarder_->mtu(),
      ", FDB ", fdb_.size(), " of ", config_.fdb_limit, "\n  flood group ", group_->mgid().ToString());
  const absl::optional<FloodGroup::Joined>& joined = group_->joined();
  if (joined.has_value()) {
    absl::StrAppend(&text, ": joined, MLID ", joined->mlid.ToString(), ", Q_Key ", joined->qkey.ToString(), ", MTU ",
                    joined->mtu_bytes, "\n");
  } else {
    absl::StrAppend(&text, ": not joined: ", group_->trouble(), "\n");
  }
  if (joined.has_value() && !group_->trouble().empty()) absl::StrAppend(&text, "  joining again: ", group_->trouble(), "\n");
  for (const VPort& vport : vports_) absl::StrAppend(&text, ShowVPort(vport));
  return text;
}

std::string Ves::ShowVPort(const VPort& vport) const {
  const VlanPolicy& vlan = vport.config.vlan;
  std::string text =
      absl::StrCat("  vPort ", vport.config.name, ": ", vport.config.type, ", MAC ", vport.port->mac().ToString());
  if (vlan.mode == PortMode::kAccess) {
    absl::StrAppend(&text, ", access VLAN ", vlan.access_vlan.ToString());
  } else {
    absl::StrAppend(&text, ", trunk VLANs ", vlan.trunk_vlans.ToString(), ", native VLAN ", vlan.native_vlan.ToString());
  }
  return absl::StrCat(text, "\n");
}

std::string Ves::ShowFdb() const {
  std::string text =
      absl::StrFormat("VES %s\n%5s  %-17s  %-9s  %6s  %s\n", config_.name, "VLAN", "MAC", "origin", "age", "behind");
  for (const Fdb::Entry& entry : fdb_.Dump()) {
    const bool ages = entry.origin != FdbOrigin::kStatic && entry.origin != FdbOrigin::kManager;
    absl::StrAppendFormat(&text, "%5s  %-17s  %-9s  %6s  %s\n", entry.key.vid().ToString(), entry.key.mac().ToString(),
                          OriginName(entry.origin), ages ? absl::StrCat(absl::ToInt64Seconds(entry.age)) : "-",
                          Behind(entry.vport));
  }
  return text;
}

std::string Ves::Stats() const {
  const ForwarderCounters& counters = forwarder_->counters();
  std::string text = absl::StrCat("VES ", config_.name, "\n");
  const auto line = [&text](absl::string_view name, uint64_t value) { absl::StrAppend(&text, "  ", name, " ", value, "\n"); };
#define EOIB_X(member, help) line(#member, counters.member.value());
  EOIB_FORWARDER_COUNTERS(EOIB_X)
#undef EOIB_X
  line("ingress_drops", counters.DropSum(DropSide::kIngress));
  line("egress_drops", counters.DropSum(DropSide::kEgress));
  line("under_way", counters.UnderWay());
  line("fdb_entries", fdb_.size());
  for (const VPort& vport : vports_) {
    const PortCounters& port = *forwarder_->ports()[vport.index].counters;
    line(vport.config.name + ".received", port.received.value());
    line(vport.config.name + ".received_bytes", port.received_bytes.value());
    line(vport.config.name + ".transmitted", port.transmitted.value());
    line(vport.config.name + ".transmitted_bytes", port.transmitted_bytes.value());
    line(vport.config.name + ".dropped", port.dropped.value());
  }
  return text;
}

std::string Ves::Drops() const {
  std::string text = absl::StrCat("VES ", config_.name, "\n");
  for (size_t i = 0; i < kDropReasons; ++i) {
    const uint64_t count = forwarder_->counters().drops[i].value();
    if (count != 0)
      absl::StrAppendFormat(&text, "  %-20s %10d  %s\n", kDropReasonInfo[i].label, count, kDropReasonInfo[i].help);
  }
  return text;
}

}  // namespace eoib
