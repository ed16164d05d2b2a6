#include "control/operator/frame_trace.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "vswitch/forwarder/frame_steps.h"

namespace eoib {

FrameTrace::FrameTrace(const Ves& ves, const VPort& from, std::vector<uint8_t> frame)
    : ves_(ves),
      from_(from),
      frame_(std::move(frame)),
      verdict_(ves.forwarder().Decide(from.index, absl::MakeSpan(frame_))),
      reason_(verdict_.reason) {
  if (verdict_.stage > Stage::kParse || reason_ == DropReason::kBadSource) TellHeaders();
  if (verdict_.stage >= Stage::kAdmit) TellVlan();
  if (verdict_.stage > Stage::kLearn) TellSource();
  if (verdict_.stage >= Stage::kResolve) TellDestination();
  if (reason_ == DropReason::kNone) reason_ = TellEgress();
  if (reason_ == DropReason::kNone) return;
  const CounterInfo& info = InfoOf(reason_);
  steps_.push_back(absl::StrCat("drop ", info.label, ": ", info.help));
}

void FrameTrace::TellHeaders() {
  const EthernetInfo& ethernet = verdict_.packet.ethernet;
  steps_.push_back(absl::StrFormat(
      "frame %s > %s, %s, EtherType 0x%04x, %d bytes", ethernet.source.ToString(),
      ethernet.destination.ToString(),
      ethernet.tagged ? absl::StrCat("VLAN tag ", ethernet.vid.ToString()) : "no VLAN tag",
      ethernet.ethertype, frame_.size()));
}

void FrameTrace::TellVlan() {
  const VlanPolicy& vlan = from_.config.vlan;
  const VesConfig& ves = ves_.config();
  Vid vid;
  if (reason_ != DropReason::kVlanNotAllowed) {
    if (verdict_.stage == Stage::kAdmit) return;
    vid = verdict_.packet.source.vid();
    steps_.push_back(
        absl::StrCat("vPort ", from_.config.name, ": VLAN ", vid.ToString(), " of VES ", ves.name));
    const size_t size = frame_.size() + TagToInsert(verdict_.packet.ethernet, vid);
    if (size > ves_.forwarder().mtu()) {
      steps_.push_back(absl::StrCat("larger than the VES's MTU of ", ves_.forwarder().mtu(),
                                    ": it passes in segments, or is cut"));
    }
  } else if (vlan.Classify(verdict_.packet.ethernet, &vid)) {
    steps_.push_back(absl::StrCat("VES ", ves.name, ": carries VLANs ", ves.vlans.ToString()));
  } else {
    steps_.push_back(
        absl::StrCat("vPort ", from_.config.name,
                     vlan.mode == PortMode::kAccess
                         ? ": an access port takes frames without a VLAN tag only"
                         : absl::StrCat(": a trunk of VLANs ", vlan.trunk_vlans.ToString())));
  }
}

void FrameTrace::TellSource() {
  const absl::optional<Fdb::Entry> entry = ves_.fdb().Get(verdict_.packet.source);
  steps_.push_back(absl::StrCat(
      "source: ", entry.has_value() ? absl::StrCat("known at ", ves_.Behind(entry->vport))
                                    : "unknown; the frame would teach it"));
}

void FrameTrace::TellDestination() {
  const Packet& packet = verdict_.packet;
  steps_.push_back(absl::StrCat(
      "destination: ", packet.ethernet.destination.IsGroup() ? "a group"
                       : packet.to.IsNone()                  ? "unknown"
                                            : absl::StrCat("known at ", ves_.Behind(packet.to))));
}

DropReason FrameTrace::TellEgress() {
  if (verdict_.packet.to.IsNone()) {
    TellFlood();
  } else if (verdict_.ports.empty()) {
    return TellPeer();
  } else {
    result_ = "port";
    steps_.push_back(absl::StrCat("to vPort ", ves_.vports().NameAt(verdict_.ports[0])));
  }
  return DropReason::kNone;
}

DropReason FrameTrace::TellPeer() {
  std::vector<std::string> ways;
  for (const VPortAddress& address : ves_.directory().Addresses(verdict_.packet.to)) {
    if (address.lost) continue;
    ways.push_back(
        absl::StrCat("GID ", address.peer.gid.ToString(), " QPN ", address.peer.qpn.ToString(),
                     address.lid.IsValid() ? absl::StrCat(" LID ", address.lid.ToString()) : "",
                     address.ah.IsNone() ? ", whose path is not resolved yet" : ""));
  }
  if (ways.empty()) return DropReason::kUnresolved;
  result_ = "fabric";
  steps_.push_back(absl::StrCat("to ", absl::StrJoin(ways, ", or by the flow to ")));
  return DropReason::kNone;
}

void FrameTrace::TellFlood() {
  std::vector<std::string> targets;
  for (const uint32_t port : verdict_.ports)
    targets.push_back(absl::StrCat("vPort ", ves_.vports().NameAt(port)));
  for (const VPortId agent : verdict_.agents) targets.push_back(ves_.Behind(agent));
  const auto& joined = ves_.group().joined();
  if (verdict_.to_group && joined.has_value()) {
    targets.push_back(
        absl::StrCat("group ", ves_.group().mgid().ToString(), ", MLID ", joined->mlid.ToString()));
  }
  result_ = "flood";
  steps_.push_back(absl::StrCat("flood to ", absl::StrJoin(targets, ", ")));
}

Json FrameTrace::ToJson() const {
  Json json = {{"ves", ves_.config().name},
               {"vport", from_.config.name},
               {"steps", steps_},
               {"result", result_}};
  if (reason_ != DropReason::kNone) json["drop"] = InfoOf(reason_).label;
  return json;
}

std::string FrameTrace::ToText(const Json& trace) {
  std::string text;
  for (const Json& step : trace["steps"]) absl::StrAppend(&text, step.get<std::string>(), "\n");
  return text;
}

}  // namespace eoib
