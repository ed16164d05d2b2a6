#include "vswitch/fabric/softhca/subnet/smp_responder.h"

#include <algorithm>
#include <array>

#include "absl/status/statusor.h"
#include "vswitch/base/byte_order.h"
#include "vswitch/fabric/softhca/subnet/multicast_groups.h"

namespace eoib::softhca {
namespace {

// The start of SwitchInfo (IBA 1.4 §14.2.5.4); the other fields are zero.
struct SwitchInfoWire {
  be16 linear_fdb_cap;
  be16 random_fdb_cap;
  be16 multicast_fdb_cap;
  be16 linear_fdb_top;
};

MadStatus AnswerGuidInfo(uint32_t block, Guid guid, absl::Span<uint8_t> data) {
  if (block != 0) return MadStatus::kInvalidField;
  WriteWire(be64(guid.value()), data.data());
  return MadStatus::kOk;
}

}  // namespace

absl::optional<Mad> SmpResponder::Respond(const ManagedPort& from, Lid destination,
                                          const Mad& mad) {
  absl::StatusOr<SmpHeader> header = DecodeSmpHeader(mad);
  const bool is_request =
      header.ok() && (header->method == MadMethod::kGet || header->method == MadMethod::kSet);
  absl::optional<Node> node;
  if (is_request && !header->IsResponse())
    node = header->directed ? FollowRoute(from, &*header) : NodeOfLid(from, destination);
  if (!node.has_value()) {
    ++counters_.lost;
    return absl::nullopt;
  }
  ++counters_.requests;
  std::array<uint8_t, kSmpDataSize> data{};
  header->status = static_cast<uint16_t>(Answer(*node, *header, absl::MakeSpan(data)));
  header->method = MadMethod::kGetResp;
  header->returning = header->directed;
  Mad reply;
  EncodeSmpHeader(*header, &reply);
  std::copy(data.begin(), data.end(), SmpData(&reply).begin());
  return reply;
}

absl::optional<SmpResponder::Node> SmpResponder::NodeOfLid(const ManagedPort& from,
                                                           Lid destination) const {
  if (destination == ports_->Switch().lid) return Node{nullptr, from.switch_port};
  const ManagedPort* port = ports_->FindByLid(destination);
  if (port == nullptr) return absl::nullopt;
  return Node{port, kHcaPort};
}

// Does in one step what each hop would do to the packet on the way there and back (IBA 1.4
// §14.2.2). The way back restores the hop pointer, so it stays 0.
absl::optional<SmpResponder::Node> SmpResponder::FollowRoute(const ManagedPort& from,
                                                             SmpHeader* header) const {
  const bool is_pure_route =
      header->dr_slid == SmpHeader::kPermissiveLid && header->dr_dlid == SmpHeader::kPermissiveLid;
  if (!is_pure_route || header->hop_pointer != 0 || header->hop_count > 2) return absl::nullopt;
  if (header->hop_count == 0) return Node{&from, kHcaPort};
  if (header->initial_path[1] != kHcaPort || from.switch_port == 0) return absl::nullopt;
  header->return_path[1] = from.switch_port;
  if (header->hop_count == 1) return Node{nullptr, from.switch_port};
  const ManagedPort* port = PortCabledTo(header->initial_path[2]);
  if (port == nullptr) return absl::nullopt;
  header->return_path[2] = kHcaPort;
  return Node{port, kHcaPort};
}

const ManagedPort* SmpResponder::PortCabledTo(uint8_t switch_port) const {
  if (switch_port == 0) return nullptr;
  for (const ManagedPort* port : ports_->Active()) {
    if (port->switch_port == switch_port) return port;
  }
  return nullptr;
}

MadStatus SmpResponder::Answer(const Node& node, const SmpHeader& request,
                               absl::Span<uint8_t> data) const {
  if (request.method != MadMethod::kGet) return MadStatus::kUnsupportedMethodAttribute;
  return node.port != nullptr ? AnswerOfPort(*node.port, request, data)
                              : AnswerOfSwitch(node, request, data);
}

MadStatus SmpResponder::AnswerOfPort(const ManagedPort& port, const SmpHeader& request,
                                     absl::Span<uint8_t> data) const {
  switch (request.attribute) {
    case SmpAttribute::kNodeInfo:
      EncodeNodeInfo(NodeInfoOf(port), data);
      return MadStatus::kOk;
    case SmpAttribute::kNodeDescription:
      EncodeNodeDescription(port.name, data);
      return MadStatus::kOk;
    case SmpAttribute::kGuidInfo:
      return AnswerGuidInfo(request.attribute_modifier, port.config.port_guid, data);
    case SmpAttribute::kPortInfo:
      // 0 means the port by which the packet came in, and there is only one.
      if (request.attribute_modifier > kHcaPort) return MadStatus::kInvalidField;
      EncodePortInfo(PortInfoOf(port), data);
      return MadStatus::kOk;
    case SmpAttribute::kPKeyTable: {
      // The low half of the modifier is the block. The high half is a port number, used by switches
      // only.
      const absl::optional<PKeyTableBlock> block =
          PKeyBlockOf(port.config, request.attribute_modifier & 0xffff);
      if (!block.has_value()) return MadStatus::kInvalidField;
      EncodePKeyTable(*block, data);
      return MadStatus::kOk;
    }
    default:
      return MadStatus::kUnsupportedMethodAttribute;
  }
}

MadStatus SmpResponder::AnswerOfSwitch(const Node& node, const SmpHeader& request,
                                       absl::Span<uint8_t> data) const {
  const ManagedSwitch& the_switch = ports_->Switch();
  switch (request.attribute) {
    case SmpAttribute::kNodeInfo:
      EncodeNodeInfo(NodeInfoOf(the_switch, node.entered_by), data);
      return MadStatus::kOk;
    case SmpAttribute::kNodeDescription:
      EncodeNodeDescription(kSwitchDescription, data);
      return MadStatus::kOk;
    case SmpAttribute::kGuidInfo:
      return AnswerGuidInfo(request.attribute_modifier, the_switch.guid, data);
    case SmpAttribute::kPortInfo:
      return SwitchPortInfo(static_cast<uint8_t>(request.attribute_modifier), node.entered_by,
                            data);
    case SmpAttribute::kSwitchInfo: {
      SwitchInfoWire info;
      info.linear_fdb_cap = Lid::kMax;
      info.multicast_fdb_cap = MulticastGroups::kMaxGroups;
      const auto ports = ports_->Active();
      info.linear_fdb_top = ports.empty()
                                ? the_switch.lid.value()
                                : std::max(the_switch.lid, ports.back()->config.lid).value();
      WriteWire(info, data.data());
      return MadStatus::kOk;
    }
    case SmpAttribute::kSmInfo: {
      if (!the_switch.runs_sm) return MadStatus::kUnsupportedMethodAttribute;
      SmInfo info;
      info.guid = the_switch.guid;
      info.activity = static_cast<uint32_t>(counters_.requests);
      EncodeSmInfo(info, data);
      return MadStatus::kOk;
    }
    default:
      return MadStatus::kUnsupportedMethodAttribute;
  }
}

// The external ports, 1 to N, have neither LID nor capabilities (IBA 1.4 §14.2.5.6). Each has the
// link state of the HCA port cabled to it. LocalPortNum is the port by which the request came in,
// whichever port the request is about.
MadStatus SmpResponder::SwitchPortInfo(uint8_t number, uint8_t entered_by,
                                       absl::Span<uint8_t> data) const {
  if (number > ManagedSwitch::kPorts) return MadStatus::kInvalidField;
  PortInfo info;
  if (number == 0) {
    info = PortInfoOf(ports_->Switch());
  } else if (const ManagedPort* port = PortCabledTo(number)) {
    info = PortInfoOf(*port);
    info.gid_prefix = 0;
    info.lid = info.sm_lid = 0;
    info.capability_mask = 0;
    info.guid_cap = 0;
  }
  info.local_port = entered_by;
  EncodePortInfo(info, data);
  return MadStatus::kOk;
}

}  // namespace eoib::softhca
