#include "control/frame_trace.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "vswitch/frame_steps.h"

namespace eoib {

FrameTrace::FrameTrace(const Ves& ves, const VPort& from, absl::Span<const uint8_t> frame) : ves_(ves), from_(from) {
  reason_ = Admit(frame);
  if (reason_ == DropReason::kNone) reason_ = Resolve();
  if (reason_ == DropReason::kNone) return;
  result_ = "drop";
  const DropReasonInfo& info = kDropReasonInfo[static_cast<size_t>(reason_)];
  steps_.push_back(absl::StrCat("drop ", info.label, ": ", info.help));
}

DropReason FrameTrace::Admit(absl::Span<const uint8_t> frame) {
  DropReason reason = ParseOne(frame, &ethernet_);
  if (reason != DropReason::kNone && reason != DropReason::kBadSource) return reason;
  steps_.push_back(absl::StrFormat("frame %s > %s, %s, EtherType 0x%04x, %d bytes", ethernet_.source.ToString(),
                                   ethernet_.destination.ToString(),
                                   ethernet_.tagged ? absl::StrCat("VLAN tag ", ethernet_.vid.ToString()) : "no VLAN tag",
                                   ethernet_.ethertype, frame.size()));
  if (reason == DropReason::kNone) reason = Classify(frame);
  if (reason == DropReason::kNone) reason = CheckSize(frame.size());
  return reason == DropReason::kNone ? CheckSource() : reason;
}

DropReason FrameTrace::Classify(absl::Span<const uint8_t> frame) {
  const VlanPolicy& vlan = from_.config.vlan;
  const VesConfig& ves = ves_.config();
  const DropReason reason = ClassifyFromPort(vlan, {ves.vlans, ves.group_fwd_mask}, frame, ethernet_, &vid_);
  if (reason == DropReason::kNone) {
    steps_.push_back(absl::StrCat("vPort ", from_.config.name, ": VLAN ", vid_.ToString(), " of VES ", ves.name));
  } else if (reason == DropReason::kVlanNotAllowed && vlan.Classify(ethernet_, &vid_)) {
    steps_.push_back(absl::StrCat("VES ", ves.name, ": carries VLANs ", ves.vlans.ToString()));
  } else if (reason == DropReason::kVlanNotAllowed) {
    steps_.push_back(absl::StrCat("vPort ", from_.config.name,
                                  vlan.mode == PortMode::kAccess
                                      ? ": an access port takes frames without a VLAN tag only"
                                      : absl::StrCat(": a trunk of VLANs ", vlan.trunk_vlans.ToString())));
  }
  return reason;
}

DropReason FrameTrace::CheckSize(size_t length) {
  const size_t with_tag = length + TagToInsert(ethernet_, vid_);
  if (with_tag > kLargestSuperFrame) return DropReason::kTooLarge;
  if (with_tag > ves_.forwarder().mtu()) {
    steps_.push_back(
        absl::StrCat("larger than the VES's MTU of ", ves_.forwarder().mtu(), ": it passes in segments, or is cut"));
  }
  return DropReason::kNone;
}

// As SourceLearner: a MAC that another vPort pins is refused, another one would be learned.
DropReason FrameTrace::CheckSource() {
  bool strip;
  for (const VPort& other : ves_.vports()) {
    if (other.index == from_.index || !other.config.pin_mac || other.port->mac() != ethernet_.source) continue;
    if (other.config.vlan.Egress(vid_, &strip)) return DropReason::kPinnedMac;
  }
  const absl::optional<Fdb::Entry> entry = ves_.fdb().Get(FdbKey(vid_, ethernet_.source));
  steps_.push_back(absl::StrCat("source: ", entry.has_value() ? absl::StrCat("known at ", ves_.Behind(entry->vport))
                                                              : "unknown; the frame would teach it"));
  return DropReason::kNone;
}

DropReason FrameTrace::Resolve() {
  if (ethernet_.destination.IsGroup()) {
    steps_.push_back("destination: a group");
    return Flood();
  }
  const absl::optional<Fdb::Entry> entry = ves_.fdb().Get(FdbKey(vid_, ethernet_.destination));
  const Route route = entry.has_value() ? ves_.directory().Get(entry->vport) : Route{};
  if (route.kind == Route::Kind::kNone) {
    steps_.push_back("destination: unknown");
    return Flood();
  }
  steps_.push_back(absl::StrCat("destination: known at ", ves_.Behind(entry->vport)));
  return route.kind == Route::Kind::kLocal ? ResolveLocal(route.local_port) : ResolveRemote(entry->vport);
}

DropReason FrameTrace::ResolveLocal(uint32_t port) {
  if (port == from_.index) return DropReason::kSamePort;
  if (IsLimitedMember()) return DropReason::kIsolated;
  bool strip;
  if (!ves_.forwarder().ports()[port].vlan.Egress(vid_, &strip)) return DropReason::kEgressVlan;
  result_ = "port";
  steps_.push_back(absl::StrCat("to vPort ", ves_.VPortAt(port)));
  return DropReason::kNone;
}

DropReason FrameTrace::ResolveRemote(VPortId peer) {
  if (!ves_.queue_pair().get()) return DropReason::kFabricDown;
  std::vector<std::string> ways;
  for (const VPortAddress& address : ves_.directory().Addresses(peer)) {
    if (address.lost) continue;
    ways.push_back(absl::StrCat("GID ", address.peer.gid.ToString(), " QPN ", address.peer.qpn.ToString(),
                                address.lid.IsValid() ? absl::StrCat(" LID ", address.lid.ToString()) : "",
                                address.ah.IsNone() ? ", whose path is not resolved yet" : ""));
  }
  if (ways.empty()) return DropReason::kUnresolved;
  result_ = "fabric";
  steps_.push_back(absl::StrCat("to ", absl::StrJoin(ways, ", or by the flow to ")));
  return DropReason::kNone;
}

DropReason FrameTrace::Flood() {
  const std::vector<std::string> targets = FloodTargets();
  if (targets.empty()) return ves_.config().flood == FloodMode::kReplicate ? DropReason::kNoEgress : DropReason::kFabricDown;
  result_ = "flood";
  steps_.push_back(absl::StrCat("flood to ", absl::StrJoin(targets, ", ")));
  return DropReason::kNone;
}

std::vector<std::string> FrameTrace::FloodTargets() const {
  std::vector<std::string> targets;
  bool strip;
  for (const VPort& other : ves_.vports()) {
    if (other.index == from_.index || IsLimitedMember() || !other.config.vlan.Egress(vid_, &strip)) continue;
    targets.push_back(absl::StrCat("vPort ", other.config.name));
  }
  if (ves_.config().flood == FloodMode::kReplicate) {
    for (const VPortDirectory::Row& row : ves_.directory().Dump()) {
      if (ves_.protocol().AgentBehind(row.vport) != nullptr) targets.push_back(ves_.Behind(row.vport));
    }
  } else if (ves_.group().joined().has_value()) {
    targets.push_back(
        absl::StrCat("group ", ves_.group().mgid().ToString(), ", MLID ", ves_.group().joined()->mlid.ToString()));
  }
  return targets;
}

// Limited members of a partition must not reach each other, also on one host.
bool FrameTrace::IsLimitedMember() const { return !ves_.queue_pair().pkey().IsFullMember(); }

Json FrameTrace::ToJson() const {
  Json json = {{"ves", ves_.config().name}, {"vport", from_.config.name}, {"steps", steps_}, {"result", result_}};
  if (reason_ != DropReason::kNone) json["drop"] = kDropReasonInfo[static_cast<size_t>(reason_)].label;
  return json;
}

std::string FrameTrace::ToText(const Json& trace) {
  std::string text;
  for (const Json& step : trace["steps"]) absl::StrAppend(&text, step.get<std::string>(), "\n");
  return text;
}

}  // namespace eoib
