// Ves: its vPorts, and the keys of its configuration that change while it runs.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/ves/ves.h"
#include "vswitch/base/check.h"
#include "vswitch/port/piece_layout.h"

namespace eoib {

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
  AddToFurtherQueues(vport);
  protocol_->AddVPort(*vport, id);
  const auto at =
      std::upper_bound(vports_.begin(), vports_.end(), vport->index,
                       [](uint32_t index, const VPort& other) { return index < other.index; });
  vports_.insert(at, std::move(*vport));
  return absl::OkStatus();
}

void Ves::SetPolicy(const VPort& vport, VPortId id) {
  fdb_.SetVPortPolicy(id, {vport.config.fdb_limit, vport.config.sticky});
}

void Ves::ChangeVPort(const VPortConfig& config) {
  const auto at = std::find_if(vports_.begin(), vports_.end(), [&config](const VPort& vport) {
    return vport.config.name == config.name;
  });
  EOIB_CHECK(at != vports_.end());
  at->config = config;
  SetPolicy(*at, forwarder()->ports()[at->index].vport);
  at->interface->Adjust(config);
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
    SetUp(&vport);
    indexes.push_back(vport.index);
  }
  if (!indexes.empty() && group_->joined().has_value()) announcer_->Start(indexes);
}

// Brings a new interface into the state of the others.
void Ves::SetUp(VPort* vport) {
  if (!running_) return;
  const uint32_t mtu = forwarder()->mtu();
  absl::Status status = vport->interface->SetMtu(InterfaceMtu(vport->config));
  status.Update(vport->interface->LimitSuperFrames(mtu));
  status.Update(vport->interface->SetLink(group_->joined().has_value()));
  if (!status.ok()) LogWarning(status.message());
}

void Ves::NoteRemade(uint32_t index, const std::string& trouble) {
  const auto at = std::find_if(vports_.begin(), vports_.end(),
                               [index](const VPort& vport) { return vport.index == index; });
  at->trouble = trouble;
  if (trouble.empty()) SetUpVPorts([index](const VPort& vport) { return vport.index == index; });
}

void Ves::NoteTrouble(uint32_t index, const std::string& trouble) {
  const auto at = std::find_if(vports_.begin(), vports_.end(),
                               [index](const VPort& vport) { return vport.index == index; });
  if (at->trouble == trouble) return;
  at->trouble = trouble;
  const std::string name = absl::StrCat("vPort ", at->config.name, ": ");
  trouble.empty() ? LogInfo(absl::StrCat(name, "its interface is up again"))
                  : LogWarning(absl::StrCat(name, trouble));
}

VPort Ves::RemoveVPort(const std::string& name) {
  const auto at = std::find_if(vports_.begin(), vports_.end(),
                               [&name](const VPort& vport) { return vport.config.name == name; });
  EOIB_CHECK(at != vports_.end());
  for (size_t queue = 0; queue < queues_.size(); ++queue) {
    while (RunPunts(queue)) {  // they may name it
    }
  }
  if (VPortSpeaker* const speaker = at->interface->speaker()) speaker->Leave(this);
  const VPortId id = forwarder()->ports()[at->index].vport;
  auto counted = std::make_unique<PortCounters>(CountersOf(*at));
  RemoveFromQueues(at->index);
  protocol_->RemoveVPort(*at, id);  // a MAC that another agent has, too, is there from now on
  VPort vport = std::move(*at);
  vport.counted = std::move(counted);
  vports_.erase(at);
  return vport;
}

const std::string& Ves::VPortAt(uint32_t index) const {
  const auto at =
      std::lower_bound(vports_.begin(), vports_.end(), index,
                       [](const VPort& vport, uint32_t wanted) { return vport.index < wanted; });
  return at->config.name;
}

// The carrier of the interfaces follows the group.
void Ves::LogGroup(const absl::optional<GroupMembership::Joined>& joined) const {
  constexpr size_t kMostNames = 10;
  std::vector<std::string> names;
  for (const VPort& vport : vports_) {
    if (names.size() < kMostNames) names.push_back(vport.config.name);
  }
  if (names.empty()) return;
  if (vports_.size() > names.size())
    names.push_back(absl::StrCat(vports_.size() - names.size(), " more"));
  const std::string group = replicates() ? "flood by unicast copies"
                                         : absl::StrCat("flood group ", group_->mgid().ToString());
  const std::string ports = absl::StrJoin(names, ", ");
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

// Skips a carrier that does not change: the kernel takes the rtnl lock for it, which others may
// hold for long.
void Ves::SetCarrier(bool up) {
  if (carrier_ == up) return;
  carrier_ = up;
  for (VPort& vport : vports_) {
    const absl::Status status = vport.interface->SetLink(up);
    if (status.ok()) continue;
    LogWarning(status.message());
    carrier_.reset();
  }
}

// A larger configured MTU than the VES's is cut, so that the interface sends nothing that the
// forwarder must drop. But segments carry larger frames.
int Ves::InterfaceMtu(const VPortConfig& vport) const {
  const int overhead = static_cast<int>(kMtuOverhead);
  const int largest = static_cast<int>(forwarder().mtu()) - overhead;
  const bool in_segments = vport.kind->takes_segments && config_.SendsSegments();
  const int limit =
      in_segments ? static_cast<int>(PieceLayout(forwarder().mtu()).Largest()) - overhead : largest;
  return std::min(vport.mtu.value_or(largest), limit);
}

void Ves::AdoptMtu(int group_mtu_bytes) {
  // OnGroup skips an unchanged MTU, so a smaller one set by the operator stays.
  adopted_mtu_ = group_mtu_bytes;
  const int mtu = group_mtu_bytes - static_cast<int>(kEoibHeaderSize);
  for (const auto& queue : queues_) queue->forwarder->SetMtu(static_cast<uint32_t>(mtu));
  for (VPort& vport : vports_) {
    absl::Status status = vport.interface->SetMtu(InterfaceMtu(vport.config));
    status.Update(vport.interface->LimitSuperFrames(static_cast<uint32_t>(mtu)));
    if (!status.ok()) LogWarning(status.message());
  }
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
  for (const auto& queue : queues_)
    queue->forwarder->SetAdmission(config.vlans, config.group_fwd_mask);
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

}  // namespace eoib
